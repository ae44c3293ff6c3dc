// SPDX-License-Identifier: GPL-2.0

//! What can be broken around the protocol: in the ring under it, in the device before it, in the
//! interrupt line between them. What can be broken in the protocol itself: see [`crate::mutants`].

/// One deliberate defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// enable_cb() looks at the ring without a barrier after it asked for a signal.
    EnableWithoutFence,
    /// enable_cb() looks at the ring before it asks for a signal.
    LookBeforeEnable,
    /// enable_cb_delayed() looks at the ring without a barrier after it asked for a signal.
    DelayedWithoutFence,
    /// enable_cb_delayed() asks for the signal one buffer later than the last one in flight.
    DelayedTooFar,
    /// enable_cb_ahead() looks at the ring without a barrier after it asked for a signal.
    AheadWithoutFence,
    /// enable_cb_ahead() asks for the signal one buffer later than it should.
    AheadTooFar,
    /// enable_cb_ahead() does not see that the buffer that it asked for is there.
    AheadLooksOneTooFar,
    /// get_buf() with callbacks on does not ask for a signal at the next buffer.
    GetBufDoesNotRearm,
    /// get_buf() asks for the next signal without a barrier before the next look at the ring.
    RearmWithoutFence,
    /// get_buf() reads the used entry without a barrier after the index.
    GetBufWithoutReadBarrier,
    /// The device reads what the driver asked for without a barrier after it moved the index.
    DeviceWithoutFence,
    /// The device moves the index without a barrier after the entry.
    DeviceWithoutWriteBarrier,
    /// The device returns each request twice.
    DeviceRepeats,
    /// The interrupt is acknowledged after its handler ran, and with it one that came meanwhile.
    LateAcknowledge,
    /// The caller of the protocol does not run the pass that is to follow at once.
    VisitEndsEarly,
    /// The caller of the protocol does not run it again after a budget was used up.
    ContinuationForgotten,
    /// The poller does not look again, after it has said that it ends, whether it is needed.
    PollerDoesNotLookAgain,
    /// The caller of the protocol starts no timer after a pass that ended late.
    TimerForgotten,
    /// A timer that is started while its handler runs is taken to be the one that ran out.
    TimerStartedMeanwhileIsLost,
    /// A pass with an urgent request in flight has the next signal come late all the same.
    UrgentWaits,
    /// Who submits an urgent request does not run the pass that is owed then.
    HastenedPassForgotten,
}
