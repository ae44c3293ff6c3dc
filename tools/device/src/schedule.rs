// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0

//! Which request ends when: the requests that a queue has fetched and not yet ended.
//!
//! Times are nanoseconds on any clock that does not go back. Each request that was fetched makes
//! a moment at which one is due; the order decides which one it is.

use crate::policy::{Order, Policy};
use std::collections::VecDeque;
use std::mem;

/// Requests on their way, in the order in which they were fetched.
#[derive(Debug)]
pub struct Schedule<T> {
    waiting: VecDeque<(u64, T)>,
    last_end: u64,
    random: fastrand::Rng,
}

impl<T> Schedule<T> {
    /// An empty one, whose random order follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            waiting: VecDeque::new(),
            last_end: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Adds a request that was fetched at the time `now`.
    pub fn push(&mut self, now: u64, request: T) {
        self.waiting.push_back((now, request));
    }

    /// How many requests are on their way.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none is on its way.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets all requests.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// When the next request is due.
    pub fn next_due(&self, policy: &Policy) -> Option<u64> {
        let (fetched, _) = self.waiting.front()?;
        let (since, micros) = match (policy.pace_us, policy.latency_us) {
            (0, latency) => (*fetched, latency),
            (pace, _) => (self.last_end.max(*fetched), pace),
        };
        Some(since.saturating_add(micros.saturating_mul(1000)))
    }

    /// Takes a request out if one is due at the time `now`.
    pub fn pop_due(&mut self, now: u64, policy: &Policy) -> Option<T> {
        if self.next_due(policy)? > now {
            return None;
        }
        let chosen = match policy.order {
            Order::In => 0,
            Order::Random => self.random.usize(..self.waiting.len()),
        };
        self.last_end = now;
        let (_, mut request) = self.waiting.pop_front()?;
        // The moment was the first one's, who now waits for the chosen one's.
        if let Some((_, other)) = chosen.checked_sub(1).and_then(|n| self.waiting.get_mut(n)) {
            mem::swap(other, &mut request);
        }
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    fn policy(pace_us: u64, latency_us: u64) -> Policy {
        Policy {
            pace_us,
            latency_us,
            ..Policy::default()
        }
    }

    /// Ends everything, each at the moment at which it is due.
    fn play(schedule: &mut Schedule<u32>, policy: &Policy) -> Vec<(u64, u32)> {
        let mut ended = Vec::new();
        while let Some(due) = schedule.next_due(policy) {
            assert_eq!(schedule.pop_due(due - 1, policy), None);
            ended.push((due, schedule.pop_due(due, policy).unwrap()));
        }
        ended
    }

    fn two_at_once_and_one_later() -> Schedule<u32> {
        let mut schedule = Schedule::new(1);
        schedule.push(100 * US, 0);
        schedule.push(100 * US, 1);
        schedule.push(107 * US, 2);
        schedule
    }

    #[test]
    fn without_a_policy_all_are_due_when_fetched() {
        let ended = play(&mut two_at_once_and_one_later(), &policy(0, 0));
        assert_eq!(ended, [(100 * US, 0), (100 * US, 1), (107 * US, 2)]);
    }

    #[test]
    fn a_pace_separates_requests() {
        let ended = play(&mut two_at_once_and_one_later(), &policy(20, 0));
        assert_eq!(ended, [(120 * US, 0), (140 * US, 1), (160 * US, 2)]);
    }

    #[test]
    fn a_pace_starts_anew_after_an_idle_time() {
        let mut schedule = two_at_once_and_one_later();
        play(&mut schedule, &policy(20, 0));
        schedule.push(165 * US, 3);
        assert_eq!(schedule.next_due(&policy(20, 0)), Some(185 * US));
        schedule.push(900 * US, 4);
        assert_eq!(
            play(&mut schedule, &policy(20, 0)),
            [(185 * US, 3), (920 * US, 4)]
        );
    }

    #[test]
    fn who_ends_late_delays_those_behind() {
        let mut schedule = two_at_once_and_one_later();
        let policy = policy(20, 0);
        assert_eq!(schedule.pop_due(150 * US, &policy), Some(0));
        assert_eq!(schedule.next_due(&policy), Some(170 * US));
    }

    #[test]
    fn latencies_run_side_by_side() {
        let ended = play(&mut two_at_once_and_one_later(), &policy(0, 50));
        assert_eq!(ended, [(150 * US, 0), (150 * US, 1), (157 * US, 2)]);
    }

    #[test]
    fn a_new_policy_applies_to_those_on_their_way() {
        let schedule = two_at_once_and_one_later();
        assert_eq!(
            schedule.next_due(&policy(0, 1_000_000)),
            Some(1_000_100 * US)
        );
        assert_eq!(schedule.next_due(&policy(0, 0)), Some(100 * US));
    }

    #[test]
    fn the_longest_time_does_not_wrap() {
        let mut schedule = Schedule::new(1);
        schedule.push(u64::MAX - 1, 0);
        assert_eq!(schedule.next_due(&policy(0, u64::MAX)), Some(u64::MAX));
    }

    #[test]
    fn a_random_order_has_the_same_moments_and_loses_nothing() {
        let mut schedule = Schedule::new(7);
        for n in 0..64 {
            schedule.push(n * US, n as u32);
        }
        let policy = Policy {
            order: Order::Random,
            ..policy(0, 100)
        };
        let ended = play(&mut schedule, &policy);
        let moments: Vec<_> = ended.iter().map(|(due, _)| *due).collect();
        assert_eq!(moments, (100..164).map(|n| n * US).collect::<Vec<_>>());
        let mut requests: Vec<_> = ended.into_iter().map(|(_, request)| request).collect();
        assert!(!requests.is_sorted());
        requests.sort_unstable();
        assert_eq!(requests, (0..64).collect::<Vec<_>>());
    }
}
