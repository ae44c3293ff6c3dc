// SPDX-License-Identifier: GPL-2.0

//! Disk names: in the kernel's order, each its own, and short enough.

use models::driver::name::DiskName;
use proptest::prelude::*;

/// `DISK_NAME_LEN`, with the NUL.
const DISK_NAME_LEN: usize = 32;

/// The index of a name: bijective base 26.
fn index_of(name: &str) -> u64 {
    let letters = name.strip_prefix("vd").expect("the prefix");
    assert!(!letters.is_empty());
    let digits = letters.bytes().map(|letter| {
        assert!(letter.is_ascii_lowercase(), "{name}");
        u64::from(letter - b'a') + 1
    });
    digits.fold(0, |index, digit| index * 26 + digit) - 1
}

#[test]
fn known_names() {
    let known = [
        (0, "vda"),
        (1, "vdb"),
        (25, "vdz"),
        (26, "vdaa"),
        (27, "vdab"),
        (51, "vdaz"),
        (52, "vdba"),
        (701, "vdzz"),
        (702, "vdaaa"),
        (18277, "vdzzz"),
        (18278, "vdaaaa"),
    ];
    for (index, name) in known {
        assert_eq!(DiskName::new(index).to_string(), name);
    }
}

#[test]
fn the_longest_name_fits() {
    let name = DiskName::new(u32::MAX);
    assert_eq!(index_of(&name.to_string()), u64::from(u32::MAX));
    assert!(name.as_bytes_with_nul().len() <= DISK_NAME_LEN);
}

#[test]
fn the_first_names_follow_each_other() {
    for index in 0..100_000 {
        assert_eq!(
            index_of(&DiskName::new(index).to_string()),
            u64::from(index)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_index_has_its_name(index in any::<u32>()) {
        let name = DiskName::new(index);
        let text = name.to_string();
        prop_assert_eq!(index_of(&text), u64::from(index));
        prop_assert_eq!(name.as_bytes(), text.as_bytes());
        let with_nul = name.as_bytes_with_nul();
        prop_assert_eq!(with_nul.split_last(), Some((&0, name.as_bytes())));
        prop_assert!(!name.as_bytes().contains(&0));
    }
}
