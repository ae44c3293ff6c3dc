// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! When a worker asks whether the guest wants a signal.

use crate::policy::{Policy, Signal};

/// What a queue still has to ask about.
#[derive(Debug, Default)]
pub struct Signaller {
    /// Chains were published and not asked about.
    owed: bool,
    /// The used index when the guest's wish was last asked for.
    asked_at: Option<u16>,
    /// When a signal was last sent, in nanoseconds.
    sent_at: Option<u64>,
}

impl Signaller {
    /// Notes that a chain was published. Returns whether to ask now.
    pub fn published(&mut self, policy: &Policy) -> bool {
        self.owed = true;
        policy.signal == Signal::Each
    }

    /// Whether to ask at the time `now`, after all that was due was published.
    pub fn is_due(&self, now: u64, policy: &Policy) -> bool {
        self.owed && self.deadline(policy).is_none_or(|deadline| deadline <= now)
    }

    /// The time until which a signal is held back.
    pub fn deadline(&self, policy: &Policy) -> Option<u64> {
        match (policy.signal, self.sent_at, self.owed) {
            (Signal::Delayed(micros), Some(sent), true) => {
                Some(sent.saturating_add(micros.saturating_mul(1000)))
            }
            _ => None,
        }
    }

    /// The used index since which the guest has not been asked.
    pub fn since(&self) -> Option<u16> {
        self.asked_at
    }

    /// Notes that the guest was asked when the used index was `index`.
    pub fn asked(&mut self, index: u16) {
        self.owed = false;
        self.asked_at = Some(index);
    }

    /// Notes that a signal was sent.
    pub fn sent(&mut self, now: u64) {
        self.sent_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(signal: Signal) -> Policy {
        Policy {
            signal,
            ..Policy::default()
        }
    }

    #[test]
    fn each_asks_at_once_and_batch_at_the_end() {
        let mut signaller = Signaller::default();
        assert!(signaller.published(&policy(Signal::Each)));
        signaller.asked(1);
        assert_eq!(signaller.since(), Some(1));
        let batch = policy(Signal::Batch);
        assert!(!signaller.is_due(0, &batch));
        assert!(!signaller.published(&batch));
        assert!(signaller.is_due(0, &batch));
    }

    #[test]
    fn delayed_keeps_its_distance() {
        let delayed = policy(Signal::Delayed(50));
        let mut signaller = Signaller::default();
        signaller.published(&delayed);
        assert!(signaller.is_due(7, &delayed));
        signaller.asked(1);
        signaller.sent(7);
        assert_eq!(signaller.deadline(&delayed), None);
        signaller.published(&delayed);
        assert_eq!(signaller.deadline(&delayed), Some(50_007));
        assert!(!signaller.is_due(50_006, &delayed));
        assert!(signaller.is_due(50_007, &delayed));
    }

    #[test]
    fn what_was_held_back_is_due_when_the_policy_changes() {
        let delayed = policy(Signal::Delayed(1_000_000));
        let mut signaller = Signaller::default();
        signaller.sent(0);
        signaller.published(&delayed);
        assert!(!signaller.is_due(10, &delayed));
        assert!(signaller.is_due(10, &policy(Signal::Each)));
    }

    #[test]
    fn a_suppressed_signal_starts_no_delay() {
        let delayed = policy(Signal::Delayed(50));
        let mut signaller = Signaller::default();
        signaller.published(&delayed);
        signaller.asked(1);
        signaller.published(&delayed);
        assert!(signaller.is_due(0, &delayed));
    }
}
