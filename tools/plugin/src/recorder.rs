// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Counts what executes and writes a window at each end marker.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    sync::{Mutex, MutexGuard, PoisonError},
};

use marker::{Edge, Window};

use crate::{
    blocks::Blocks,
    options::Options,
    qemu::{self, Counter, Executed, PluginId, Scoreboard, Translated, TranslatedBlock},
};

/// The state of the plugin.
pub struct Recorder {
    user: Counter,
    kernel: Counter,
    /// Guards the counters' table against the threads of several guest processors.
    blocks: Option<Mutex<Blocks>>,
    output: Mutex<Output>,
}

struct Output {
    file: File,
    open: Option<Start>,
}

/// The counters at a begin marker: differences, unlike a reset, cannot lose what another
/// processor adds at the same time.
struct Start {
    user: u64,
    kernel: u64,
    executions: Vec<u64>,
}

impl Recorder {
    /// Opens the output and allocates the counters.
    pub fn new(options: Options) -> Result<Self, String> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&options.out)
            .map_err(|error| format!("cannot write {}: {error}", options.out.display()))?;
        let totals = Scoreboard::new(2);
        let (Some(user), Some(kernel)) = (totals.counter(0), totals.counter(1)) else {
            return Err("no counters".to_owned());
        };
        Ok(Self {
            user,
            kernel,
            blocks: options.profile.then(Mutex::default),
            output: Mutex::new(Output { file, open: None }),
        })
    }

    fn blocks(&self) -> Option<MutexGuard<'_, Blocks>> {
        self.blocks.as_ref().map(lock)
    }

    fn instrument_kernel(&self, block: &TranslatedBlock<'_>) {
        let (address, length) = (block.address(), block.length());
        block.add_at_execution(self.kernel, length);
        if let Some(counter) = self
            .blocks()
            .and_then(|mut all| all.counter(address, length))
        {
            block.add_at_execution(counter, 1);
        }
    }

    fn begin(&self) {
        let executions = self
            .blocks()
            .map(|blocks| blocks.executions())
            .unwrap_or_default();
        lock(&self.output).open = Some(Start {
            user: self.user.sum(),
            kernel: self.kernel.sum(),
            executions,
        });
    }

    fn end(&self) {
        let (user, kernel) = (self.user.sum(), self.kernel.sum());
        let mut output = lock(&self.output);
        let Some(start) = output.open.take() else {
            return qemu::log("vbr-plugin: an end marker without a begin marker\n");
        };
        let window = Window {
            user: user.wrapping_sub(start.user),
            kernel: kernel.wrapping_sub(start.kernel),
            blocks: self
                .blocks()
                .map(|blocks| blocks.since(&start.executions))
                .unwrap_or_default(),
        };
        // One write: a reader never meets half a line that a later call completes.
        let written = serde_json::to_string(&window)
            .map_err(Into::into)
            .and_then(|line| output.file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            qemu::log(&format!("vbr-plugin: a window is lost: {error}\n"));
        }
    }
}

/// Instruments the guest's code for a recorder.
pub struct Probe {
    recorder: &'static Recorder,
    begin: Marker,
    end: Marker,
}

/// What a marker instruction calls.
struct Marker {
    recorder: &'static Recorder,
    edge: Edge,
}

impl Probe {
    /// Starts to instrument. The guest's processors run as long as QEMU, and the code generated
    /// for them refers to the counters: nothing could ever free them.
    pub fn start(id: PluginId, recorder: Recorder) {
        let recorder = Box::leak(Box::new(recorder));
        let marker = |edge| Marker { recorder, edge };
        qemu::on_translation(
            id,
            Box::leak(Box::new(Self {
                recorder,
                begin: marker(Edge::Begin),
                end: marker(Edge::End),
            })),
        );
    }
}

impl Translated for Probe {
    fn translated(&'static self, block: &TranslatedBlock<'_>) {
        // x86-64 maps its kernels at the negative half of the address space.
        let kernel = block.address() >> 63 == 1;
        if kernel {
            self.recorder.instrument_kernel(block);
        } else {
            block.add_at_execution(self.recorder.user, block.length());
            for instruction in block.instructions() {
                let code = instruction.code::<{ Edge::LENGTH }>();
                match code.and_then(|code| Edge::recognise(&code)) {
                    Some(Edge::Begin) => instruction.call_at_execution(&self.begin),
                    Some(Edge::End) => instruction.call_at_execution(&self.end),
                    None => {}
                }
            }
        }
    }
}

impl Executed for Marker {
    fn executed(&self) {
        match self.edge {
            Edge::Begin => self.recorder.begin(),
            Edge::End => self.recorder.end(),
        }
    }
}

/// A panic elsewhere leaves nothing half done that the counters depend on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
