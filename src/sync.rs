//! The locks and atomics of the state that threads share. In the models (`npm run models`) they are
//! those of loom, which tries every order in which threads can run.

#[cfg(not(tollgate_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(all(not(tollgate_loom), feature = "redis"))]
pub(crate) use {futures_util::task::AtomicWaker, tokio::sync::Notify, tokio::time::sleep};

#[cfg(tollgate_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};

#[cfg(all(tollgate_loom, feature = "redis"))]
pub(crate) use modelled::{AtomicWaker, Notify, sleep};

/// The parts of futures and tokio that the models need.
#[cfg(all(tollgate_loom, feature = "redis"))]
mod modelled {
    use std::future::poll_fn;
    use std::task::{Poll, Waker};
    use std::time::Duration;

    use loom::sync::atomic::{AtomicBool, Ordering};

    #[derive(Debug, Default)]
    pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(crate) fn register(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }

        pub(crate) fn wake(&self) {
            self.0.wake();
        }

        pub(crate) fn take(&self) -> Option<Waker> {
            self.0.take_waker()
        }
    }

    /// For one waiter.
    #[derive(Debug, Default)]
    pub(crate) struct Notify {
        is_notified: AtomicBool,
        waiter: AtomicWaker,
    }

    impl Notify {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn notify_one(&self) {
            self.is_notified.swap(true, Ordering::AcqRel);
            self.waiter.wake();
        }

        pub(crate) async fn notified(&self) {
            poll_fn(|context| {
                self.waiter.register(context.waker());
                match self.is_notified.swap(false, Ordering::AcqRel) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
        }
    }

    /// Any time may pass: the other threads run as far as loom decides.
    pub(crate) async fn sleep(_time: Duration) {
        loom::thread::yield_now();
    }
}
