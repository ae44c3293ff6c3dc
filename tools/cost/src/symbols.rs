// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The guest's functions by address.

use std::collections::BTreeMap;

use anyhow::{bail, Result};
use rustc_demangle::try_demangle;

/// The functions of a running kernel and its modules.
#[derive(Debug)]
pub struct Symbols {
    functions: BTreeMap<u64, String>,
}

impl Symbols {
    /// Reads the text of `/proc/kallsyms`: an address, a type, a name and, for a module's symbol,
    /// the module's name in brackets.
    pub fn parse(kallsyms: &str) -> Result<Self> {
        let mut functions = BTreeMap::new();
        for line in kallsyms.lines() {
            let mut words = line.split_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                bail!("{line:?} is no line of /proc/kallsyms");
            };
            let address = u64::from_str_radix(address, 16)?;
            if matches!(kind, "t" | "T" | "w" | "W") {
                // The first of several names of one address is the one that the linker put first.
                functions
                    .entry(address)
                    .or_insert_with(|| readable(name, words.next()));
            }
        }
        // Without the right to see them all addresses are zero.
        if functions.len() < 2 {
            bail!("/proc/kallsyms shows no addresses. Set kernel.kptr_restrict to 0 or 1.");
        }
        Ok(Self { functions })
    }

    /// The name of the function that `address` lies in.
    pub fn resolve(&self, address: u64) -> &str {
        self.functions
            .range(..=address)
            .next_back()
            .map_or("(unknown)", |(_, name)| name)
    }
}

/// Rust's names without hashes and type arguments, all with the module as kallsyms has it.
fn readable(name: &str, module: Option<&str>) -> String {
    let name = match try_demangle(name) {
        Ok(demangled) => without_type_arguments(&format!("{demangled:#}")),
        Err(_) => name.to_owned(),
    };
    match module {
        Some(module) => format!("{name} {module}"),
        None => name,
    }
}

/// `<a::B<c::D>>::e::<f::G>` becomes `a::B::e`, and `<a::B<c::D> as h::I>::e` becomes
/// `<a::B as h::I>::e`.
fn without_type_arguments(path: &str) -> String {
    let bare = |path: &str| {
        let mut depth = 0;
        let kept = path.chars().filter(|letter| {
            depth += i32::from(*letter == '<');
            let keep = depth == 0;
            depth -= i32::from(*letter == '>');
            keep
        });
        let kept = String::from_iter(kept).replace("::::", "::");
        kept.trim_end_matches("::").to_owned()
    };
    // Brackets that open a path stand around the type that has the method.
    match path.strip_prefix('<').and_then(split_at_bracket) {
        Some((owner, rest)) => {
            let [owner, rest] = [owner, rest].map(bare);
            if owner.contains(" as ") {
                format!("<{owner}>{rest}")
            } else {
                owner + &rest
            }
        }
        None => [path].map(bare).concat(),
    }
}

/// What is before and after the first closing bracket that was not opened in `text`.
fn split_at_bracket(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    let end = text.find(|letter| {
        depth += i32::from(letter == '<') - i32::from(letter == '>');
        depth < 0
    })?;
    Some((&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 t do_one
ffffffff81000080 D some_data
ffffffff81000100 T do_two
ffffffffc0000000 t virtio_queue_rq\t[virtio_blk]
ffffffffc0000100 t _RNvMs_NtCs1_13virtio_blk_rs5queueNtB4_5Queue5drain\t[virtio_blk_rs]
";

    #[test]
    fn addresses_belong_to_the_function_before_them() {
        let symbols = Symbols::parse(KALLSYMS).unwrap();
        assert_eq!(symbols.resolve(0xffffffff81000000), "_stext");
        assert_eq!(symbols.resolve(0xffffffff8100007f), "do_one");
        assert_eq!(symbols.resolve(0xffffffff81000090), "do_one");
        assert_eq!(symbols.resolve(0xffffffff81000100), "do_two");
        assert_eq!(symbols.resolve(0x1000), "(unknown)");
    }

    #[test]
    fn modules_are_named_and_rust_is_readable() {
        let symbols = Symbols::parse(KALLSYMS).unwrap();
        assert_eq!(
            symbols.resolve(0xffffffffc0000004),
            "virtio_queue_rq [virtio_blk]"
        );
        assert_eq!(
            symbols.resolve(0xffffffffc0000104),
            "virtio_blk_rs::queue::Queue::drain [virtio_blk_rs]"
        );
    }

    #[test]
    fn type_arguments_are_left_out() {
        for (path, brief) in [
            ("kernel::init::start", "kernel::init::start"),
            ("<a::B<c::D<e::F>>>::g", "a::B::g"),
            ("<a::B<c::D> as h::I<j::K>>::g::<l::M>", "<a::B as h::I>::g"),
            ("a::b::<c::D>::{closure#0}", "a::b::{closure#0}"),
        ] {
            assert_eq!(without_type_arguments(path), brief);
        }
    }

    #[test]
    fn hidden_addresses_are_an_error() {
        let hidden = "0000000000000000 T _stext\n0000000000000000 T _text\n";
        let message = Symbols::parse(hidden).unwrap_err().to_string();
        assert!(message.contains("kptr_restrict"), "{message}");
        assert!(Symbols::parse("nonsense\n").is_err());
    }
}
