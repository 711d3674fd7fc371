//! Tasks that others may take a step with, on their own threads.
//!
//! A runtime's thread must be woken before it can send what another thread hands it: a system call there, and
//! then a wait for the scheduler, which on a busy machine is as long as Redis needs for a whole round. So the
//! thread that has something to send holds the tasks that send it, and takes the steps itself: what they write
//! is in the socket when it goes on. Everything else is the runtime's: answers, timers, connections.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// What a task does at once seldom takes more: the streams of `futures` ring once more when they have been through.
/// The rest is the runtime's.
const MOST_STEPS: usize = 4;

/// A task of a runtime that can be held. It ends when it is aborted, or its future does.
pub(crate) struct Stepped {
    /// Nothing once it has ended.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    bell: Arc<Bell>,
}

impl fmt::Debug for Stepped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stepped").finish_non_exhaustive()
    }
}

/// What wakes the task, unless it is held: then whoever holds it looks.
#[derive(Default)]
struct Bell {
    is_held: AtomicBool,
    has_rung: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::SeqCst);
        if !self.is_held.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl Stepped {
    /// Runs a future on a runtime.
    pub(crate) fn spawn(
        runtime: &Handle,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let future = Mutex::new(Some(Box::pin(future) as BoxFuture<'static, ()>));
        let stepped = Arc::new(Self { future, bell: Arc::default() });
        let own = Arc::clone(&stepped);
        let task = runtime.spawn(poll_fn(move |context| {
            own.bell.task.register(context.waker());
            // It is held for moments only.
            let mut future = own.future.lock().unwrap_or_else(PoisonError::into_inner);
            own.bell.step(&mut future)
        }));
        (stepped, task)
    }

    /// Wakes the task: whoever has it, the runtime or who holds it, goes on with it.
    pub(crate) fn ring(&self) {
        self.bell.wake_by_ref();
    }

    /// Holds the task: until this is dropped it runs only as far as it is [stepped](Held::step). Nothing if it is
    /// running.
    pub(crate) fn hold(&self) -> Option<Held<'_>> {
        let future = match self.future.try_lock() {
            Ok(future) => future,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.bell.is_held.store(true, Ordering::SeqCst);
        Some(Held { future: Some(future), bell: &self.bell })
    }
}

impl Bell {
    /// Goes on with the future as far as it goes.
    fn step(self: &Arc<Self>, future: &mut Option<BoxFuture<'static, ()>>) -> Poll<()> {
        self.has_rung.store(false, Ordering::SeqCst);
        // Taken out: were it to panic, it would not be polled again.
        let Some(mut own) = future.take() else { return Poll::Ready(()) };
        let polled = own.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))));
        if polled.is_pending() {
            *future = Some(own);
        }
        polled
    }
}

/// A task that is held.
pub(crate) struct Held<'a> {
    /// There until this is dropped.
    future: Option<MutexGuard<'a, Option<BoxFuture<'static, ()>>>>,
    bell: &'a Arc<Bell>,
}

impl Held<'_> {
    /// There is something to do.
    pub(crate) fn ring(&self) {
        self.bell.wake_by_ref();
    }

    /// Goes on with it, on this thread, while there is something to do.
    pub(crate) fn step(&mut self) {
        let Some(future) = &mut self.future else { return };
        for _ in 0..MOST_STEPS {
            if !self.bell.has_rung.load(Ordering::SeqCst) {
                return;
            }
            if self.bell.step(future).is_ready() {
                return;
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let has_ended = self.future.take().is_none_or(|future| future.is_none());
        self.bell.is_held.store(false, Ordering::SeqCst);
        // What rang meanwhile has been heard by nobody; and with the future, also by a panic, the task is to end.
        if has_ended || self.bell.has_rung.load(Ordering::SeqCst) {
            self.bell.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    fn runtime() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    /// A task that tells of each number that it is sent on which thread it got it, and panics at [`PANIC`].
    struct Teller {
        numbers: UnboundedSender<u32>,
        told: Receiver<(u32, ThreadId)>,
        stepped: Arc<Stepped>,
        task: JoinHandle<()>,
    }

    const PANIC: u32 = u32::MAX;

    impl Teller {
        fn on(runtime: &Runtime) -> Self {
            let (numbers, mut incoming) = unbounded_channel();
            let (tell, told) = channel();
            let (stepped, task) = Stepped::spawn(runtime.handle(), async move {
                while let Some(number) = incoming.recv().await {
                    assert_ne!(number, PANIC);
                    tell.send((number, thread::current().id())).unwrap();
                }
            });
            // It is under way once it has told of something.
            numbers.send(0).unwrap();
            told.recv_timeout(SOON).unwrap();
            Self { numbers, told, stepped, task }
        }
    }

    /// Until the runtime's thread has left the task alone.
    fn held(stepped: &Stepped) -> Held<'_> {
        loop {
            if let Some(held) = stepped.hold() {
                return held;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn a_step_runs_what_there_is_on_this_thread() {
        let runtime = runtime();
        let Teller { numbers, told, stepped, .. } = Teller::on(&runtime);
        let mut held = held(&stepped);
        numbers.send(1).unwrap();
        numbers.send(2).unwrap();
        assert!(told.try_recv().is_err(), "it is held");
        held.step();
        let here = thread::current().id();
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [(1, here), (2, here)]);
    }

    #[test]
    fn what_rings_while_it_is_held_is_the_runtimes_afterwards() {
        let runtime = runtime();
        let Teller { numbers, told, stepped, .. } = Teller::on(&runtime);
        let held = held(&stepped);
        numbers.send(1).unwrap();
        drop(held);
        let (number, thread) = told.recv_timeout(SOON).unwrap();
        assert_eq!(number, 1);
        assert_ne!(thread, thread::current().id());
    }

    #[test]
    fn a_future_that_ends_in_a_step_ends_the_task() {
        let runtime = runtime();
        let Teller { numbers, stepped, task, .. } = Teller::on(&runtime);
        let mut held = held(&stepped);
        drop(numbers);
        held.step();
        drop(held);
        runtime.block_on(async { tokio::time::timeout(SOON, task).await }).unwrap().unwrap();
        self::held(&stepped).step();
    }

    #[test]
    fn a_future_that_panics_in_a_step_ends_the_task() {
        let runtime = runtime();
        let Teller { numbers, stepped, task, .. } = Teller::on(&runtime);
        let stepping = catch_unwind(AssertUnwindSafe(|| {
            let mut held = held(&stepped);
            numbers.send(PANIC).unwrap();
            held.step();
        }));
        assert!(stepping.is_err());
        runtime.block_on(async { tokio::time::timeout(SOON, task).await }).unwrap().unwrap();
    }

    #[test]
    fn nothing_is_lost_or_overtaken_whoever_steps() {
        const MANY: u32 = 20_000;
        let runtime = runtime();
        let Teller { numbers, told, stepped, .. } = Teller::on(&runtime);
        for number in 1..=MANY {
            // Half of the time it is the runtime's, which may be at it when it is to be held.
            let mut held = if number % 2 == 0 { stepped.hold() } else { None };
            numbers.send(number).unwrap();
            held.as_mut().map(Held::step);
        }
        for number in 1..=MANY {
            assert_eq!(told.recv_timeout(SOON).unwrap().0, number);
        }
    }
}
