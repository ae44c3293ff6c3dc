// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! The part of QEMU's plugin interface, version 7, that the counters need, as safe functions.
//!
//! Only QEMU can call into a plugin, and it provides every function that is declared here.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString};

/// The version of the interface that the declarations follow; QEMU refuses one it has dropped.
pub const API_VERSION: c_int = 7;

/// QEMU's name for the loaded plugin.
pub type PluginId = u64;

type Trampoline = unsafe extern "C" fn(c_uint, *mut c_void);
type TranslateTrampoline = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// A 64-bit cell of a scoreboard, one per processor; `qemu_plugin_u64` in C.
///
/// # Invariants
///
/// `scoreboard` came from `qemu_plugin_scoreboard_new` and is never freed.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    scoreboard: *mut c_void,
    /// In bytes, below the scoreboard's size.
    offset: usize,
}

// SAFETY: Entries are only ever passed to QEMU's functions, which lock where that is needed.
unsafe impl Send for Entry {}
// SAFETY: As above.
unsafe impl Sync for Entry {}

const INLINE_ADD_U64: c_int = 0;
const CB_NO_REGS: c_int = 0;

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(
        id: PluginId,
        callback: TranslateTrampoline,
        userdata: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut c_void,
        operation: c_int,
        entry: Entry,
        immediate: u64,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut c_void,
        callback: Trampoline,
        flags: c_int,
        userdata: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(block: *const c_void) -> usize;
    fn qemu_plugin_tb_vaddr(block: *const c_void) -> u64;
    fn qemu_plugin_tb_get_insn(block: *const c_void, index: usize) -> *mut c_void;
    fn qemu_plugin_insn_data(instruction: *const c_void, data: *mut c_void, length: usize)
        -> usize;
    fn qemu_plugin_insn_size(instruction: *const c_void) -> usize;
    fn qemu_plugin_scoreboard_new(size: usize) -> *mut c_void;
    fn qemu_plugin_u64_sum(entry: Entry) -> u64;
    fn qemu_plugin_outs(text: *const c_char);
}

/// A block of guest code that QEMU is about to translate.
pub struct TranslatedBlock<'a> {
    /// Valid during the translation callback, which the lifetime stands for.
    handle: *mut c_void,
    _callback: std::marker::PhantomData<&'a mut ()>,
}

impl<'a> TranslatedBlock<'a> {
    /// The guest virtual address of the first instruction.
    pub fn address(&self) -> u64 {
        // SAFETY: The handle is valid, see the field.
        unsafe { qemu_plugin_tb_vaddr(self.handle) }
    }

    /// The number of instructions.
    pub fn length(&self) -> u64 {
        // SAFETY: The handle is valid, see the field.
        unsafe { qemu_plugin_tb_n_insns(self.handle) as u64 }
    }

    /// The instructions in order.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction<'a>> {
        let block = self.handle;
        // SAFETY: The handle is valid, see the field.
        let length = unsafe { qemu_plugin_tb_n_insns(block) };
        (0..length).map(move |index| Instruction {
            // SAFETY: The handle is valid, see the field, and the index is below the length.
            handle: unsafe { qemu_plugin_tb_get_insn(block, index) },
            _callback: std::marker::PhantomData,
        })
    }

    /// Adds `amount` to `counter` each time that the block executes, in generated code.
    pub fn add_at_execution(&self, counter: Counter, amount: u64) {
        // SAFETY: The handle is valid, see the field, and so is the entry, see its type.
        unsafe {
            qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
                self.handle,
                INLINE_ADD_U64,
                counter.0,
                amount,
            );
        }
    }
}

/// One instruction of a [`TranslatedBlock`].
pub struct Instruction<'a> {
    /// Valid during the translation callback, which the lifetime stands for.
    handle: *mut c_void,
    _callback: std::marker::PhantomData<&'a mut ()>,
}

impl Instruction<'_> {
    /// Whether its machine code has exactly `N` bytes, and which.
    pub fn code<const N: usize>(&self) -> Option<[u8; N]> {
        let mut code = [0; N];
        // SAFETY: The handle is valid, see the field, and at most N bytes are written.
        let copied = unsafe {
            (qemu_plugin_insn_size(self.handle) == N)
                .then(|| qemu_plugin_insn_data(self.handle, code.as_mut_ptr().cast(), N))
        };
        (copied == Some(N)).then_some(code)
    }

    /// Calls `T::executed` each time that the instruction executes.
    pub fn call_at_execution<T: Executed>(&self, receiver: &'static T) {
        unsafe extern "C" fn trampoline<T: Executed>(_vcpu: c_uint, userdata: *mut c_void) {
            // SAFETY: The registration below passed a &'static T.
            let receiver = unsafe { &*userdata.cast_const().cast::<T>() };
            receiver.executed();
        }
        // SAFETY: The handle is valid, see the field; the trampoline fits the userdata.
        unsafe {
            qemu_plugin_register_vcpu_insn_exec_cb(
                self.handle,
                trampoline::<T>,
                CB_NO_REGS,
                std::ptr::from_ref(receiver).cast_mut().cast(),
            );
        }
    }
}

/// Receives the execution of an instrumented instruction, on the thread of its processor.
pub trait Executed: Sync + 'static {
    fn executed(&self);
}

/// Receives every block that QEMU translates, on the thread that translates it.
pub trait Translated: Sync + 'static {
    fn translated(&'static self, block: &TranslatedBlock<'_>);
}

/// Has `receiver` called for every block that QEMU translates from now on.
pub fn on_translation<T: Translated>(id: PluginId, receiver: &'static T) {
    unsafe extern "C" fn trampoline<T: Translated>(block: *mut c_void, userdata: *mut c_void) {
        // SAFETY: The registration below passed a &'static T.
        let receiver = unsafe { &*userdata.cast_const().cast::<T>() };
        receiver.translated(&TranslatedBlock {
            handle: block,
            _callback: std::marker::PhantomData,
        });
    }
    // SAFETY: The trampoline fits the userdata.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(
            id,
            trampoline::<T>,
            std::ptr::from_ref(receiver).cast_mut().cast(),
        );
    }
}

/// Per-processor memory that generated code adds to without locks; lives as long as QEMU.
pub struct Scoreboard {
    first: Entry,
    counters: usize,
}

impl Scoreboard {
    /// Allocates `counters` counters per processor, all zero.
    pub fn new(counters: usize) -> Self {
        // INVARIANT: There is no call that would free the scoreboard.
        let first = Entry {
            // SAFETY: Any size is allowed; the allocation aborts QEMU rather than fail.
            scoreboard: unsafe { qemu_plugin_scoreboard_new(counters * size_of::<u64>()) },
            offset: 0,
        };
        Self { first, counters }
    }

    /// The counter with this index, if there are so many.
    pub fn counter(&self, index: usize) -> Option<Counter> {
        (index < self.counters).then_some(Counter(Entry {
            offset: index * size_of::<u64>(),
            ..self.first
        }))
    }
}

/// One counter of a [`Scoreboard`].
#[derive(Clone, Copy)]
pub struct Counter(Entry);

impl Counter {
    /// The sum over all processors.
    pub fn sum(self) -> u64 {
        // SAFETY: The invariants of the entry.
        unsafe { qemu_plugin_u64_sum(self.0) }
    }
}

/// Says something in QEMU's log (`-d plugin`).
pub fn log(message: &str) {
    let text = CString::new(message).unwrap_or_else(|_| c"message with a zero byte".to_owned());
    // SAFETY: The text ends with a zero byte and outlives the call.
    unsafe { qemu_plugin_outs(text.as_ptr()) }
}

/// The plugin's arguments (`-plugin file,name=value,...`), as far as they are UTF-8.
///
/// # Safety
///
/// `argv` must hold `argc` C strings.
pub unsafe fn arguments<'a>(argc: c_int, argv: *const *const c_char) -> Vec<&'a str> {
    (0..usize::try_from(argc).unwrap_or(0))
        .filter_map(|index| {
            // SAFETY: The caller promises so many C strings, and QEMU never frees them.
            unsafe { CStr::from_ptr(*argv.add(index)) }.to_str().ok()
        })
        .collect()
}
