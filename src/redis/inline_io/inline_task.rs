//! Tasks that a thread outside the runtime can poll.
//!
//! Before a runtime's thread can send a request of another thread, it must be woken: that takes a
//! system call, and then a wait for the scheduler, which on a busy machine takes as long as Redis
//! needs for a whole flush. So the thread that submits a request locks the tasks that send it, and
//! polls them itself: when it continues, the request is in the socket. The runtime does the rest:
//! timers, connecting, and reading unless the event loop does it.

use std::future::{Future, poll_fn};
use std::sync::{Arc, PoisonError, TryLockError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{AtomicWaker, Mutex, MutexGuard};

/// The maximum number of polls in a row by one guard. A task seldom needs more: the streams of
/// `futures` wake it once more after they have polled everything. The runtime does the rest.
const MAX_POLLS: usize = 4;

/// A task that other threads can poll, too. It ends when aborted or when its future completes.
pub(crate) struct InlineTask {
    /// `None` after the future has completed or panicked.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    waker: Arc<TaskWaker>,
}

/// Wakes the task on the runtime. While a guard exists, it only records the wake-up for the guard.
#[derive(Default)]
struct TaskWaker {
    /// [`GUARDED`] and [`WOKEN`]. In one atomic, a wake-up and the end of a guard have an order, so
    /// that one of them sees the other.
    state: AtomicU8,
    runtime: AtomicWaker,
}

/// A guard exists.
const GUARDED: u8 = 1;

/// The task has been woken since the start of its last poll.
const WOKEN: u8 = 2;

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(WOKEN, Ordering::AcqRel) & GUARDED == 0 {
            self.runtime.wake();
        }
    }
}

impl InlineTask {
    pub(crate) fn spawn(
        runtime: &Handle,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let inline_task = Self::new(future);
        let own = Arc::clone(&inline_task);
        let task = runtime.spawn(poll_fn(move |context| own.poll_on_runtime(context)));
        (inline_task, task)
    }

    pub(super) fn new(future: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        let future = Mutex::new(Some(Box::pin(future) as BoxFuture<'static, ()>));
        Arc::new(Self { future, waker: Arc::default() })
    }

    pub(super) fn poll_on_runtime(&self, context: &mut Context<'_>) -> Poll<()> {
        self.waker.runtime.register(context.waker());
        // Other threads hold the lock only briefly.
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        self.waker.poll_once(&mut future)
    }

    /// Wakes the task: its guard polls it, or the runtime if there is no guard.
    pub(crate) fn wake(&self) {
        self.waker.wake_by_ref();
    }

    /// Locks the task, so that until the guard is dropped only
    /// [`poll_while_woken`](PollGuard::poll_while_woken) polls it. Returns `None` if another thread
    /// is polling it.
    pub(crate) fn try_lock(&self) -> Option<PollGuard<'_>> {
        let future = match self.future.try_lock() {
            Ok(future) => future,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.waker.state.fetch_or(GUARDED, Ordering::AcqRel);
        Some(PollGuard { future: Some(future), waker: &self.waker })
    }
}

impl TaskWaker {
    fn poll_once(self: &Arc<Self>, future: &mut Option<BoxFuture<'static, ()>>) -> Poll<()> {
        self.state.fetch_and(!WOKEN, Ordering::AcqRel);
        // Take the future out, so that it is not polled again if it panics.
        let Some(mut own) = future.take() else { return Poll::Ready(()) };
        let polled = own.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(self))));
        if polled.is_pending() {
            *future = Some(own);
        }
        polled
    }
}

pub(crate) struct PollGuard<'a> {
    /// `None` only while the guard is being dropped.
    future: Option<MutexGuard<'a, Option<BoxFuture<'static, ()>>>>,
    waker: &'a Arc<TaskWaker>,
}

impl PollGuard<'_> {
    pub(crate) fn wake(&self) {
        self.waker.wake_by_ref();
    }

    /// Polls the task on this thread while it is woken, at most [`MAX_POLLS`] times.
    pub(crate) fn poll_while_woken(&mut self) {
        let Some(future) = &mut self.future else { return };
        for _ in 0..MAX_POLLS {
            if self.waker.state.load(Ordering::Acquire) & WOKEN == 0 {
                return;
            }
            if self.waker.poll_once(future).is_ready() {
                return;
            }
        }
    }
}

impl Drop for PollGuard<'_> {
    fn drop(&mut self) {
        let has_ended = self.future.take().is_none_or(|future| future.is_none());
        let before = self.waker.state.fetch_and(!GUARDED, Ordering::AcqRel);
        // Pass a recorded wake-up on to the runtime. If the future has completed or panicked, the
        // runtime must end the task.
        if has_ended || before & WOKEN != 0 {
            self.waker.runtime.wake();
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

    /// A task that receives numbers and reports each with the thread on which it received it. It
    /// panics at [`PANIC`].
    struct Echo {
        numbers: UnboundedSender<u32>,
        echoes: Receiver<(u32, ThreadId)>,
        inline_task: Arc<InlineTask>,
        task: JoinHandle<()>,
    }

    const PANIC: u32 = u32::MAX;

    impl Echo {
        fn on(runtime: &Runtime) -> Self {
            let (numbers, mut incoming) = unbounded_channel();
            let (echo, echoes) = channel();
            let (inline_task, task) = InlineTask::spawn(runtime.handle(), async move {
                while let Some(number) = incoming.recv().await {
                    assert_ne!(number, PANIC);
                    echo.send((number, thread::current().id())).unwrap();
                }
            });
            // Wait until the runtime has polled the task.
            numbers.send(0).unwrap();
            echoes.recv_timeout(SOON).unwrap();
            Self { numbers, echoes, inline_task, task }
        }
    }

    /// Locks the task as soon as the runtime does not poll it.
    fn lock(task: &InlineTask) -> PollGuard<'_> {
        loop {
            if let Some(guard) = task.try_lock() {
                return guard;
            }
            thread::yield_now();
        }
    }

    #[test]
    fn a_guard_polls_the_task_on_this_thread() {
        let runtime = runtime();
        let Echo { numbers, echoes, inline_task, .. } = Echo::on(&runtime);
        let mut guard = lock(&inline_task);
        numbers.send(1).unwrap();
        numbers.send(2).unwrap();
        assert!(echoes.try_recv().is_err(), "the task is locked");
        guard.poll_while_woken();
        let here = thread::current().id();
        assert_eq!(echoes.try_iter().collect::<Vec<_>>(), [(1, here), (2, here)]);
    }

    #[test]
    fn a_wake_up_during_a_guard_goes_to_the_runtime_afterwards() {
        let runtime = runtime();
        let Echo { numbers, echoes, inline_task, .. } = Echo::on(&runtime);
        let guard = lock(&inline_task);
        numbers.send(1).unwrap();
        drop(guard);
        let (number, thread) = echoes.recv_timeout(SOON).unwrap();
        assert_eq!(number, 1);
        assert_ne!(thread, thread::current().id());
    }

    #[test]
    fn a_future_that_completes_under_a_guard_ends_the_task() {
        let runtime = runtime();
        let Echo { numbers, inline_task, task, .. } = Echo::on(&runtime);
        let mut guard = lock(&inline_task);
        drop(numbers);
        guard.poll_while_woken();
        drop(guard);
        runtime.block_on(async { tokio::time::timeout(SOON, task).await }).unwrap().unwrap();
        lock(&inline_task).poll_while_woken();
    }

    #[test]
    fn a_future_that_panics_under_a_guard_ends_the_task() {
        let runtime = runtime();
        let Echo { numbers, inline_task, task, .. } = Echo::on(&runtime);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = lock(&inline_task);
            numbers.send(PANIC).unwrap();
            guard.poll_while_woken();
        }));
        assert!(result.is_err());
        runtime.block_on(async { tokio::time::timeout(SOON, task).await }).unwrap().unwrap();
    }

    #[test]
    fn no_message_is_lost_or_reordered_when_both_threads_poll() {
        const MANY: u32 = 20_000;
        let runtime = runtime();
        let Echo { numbers, echoes, inline_task, .. } = Echo::on(&runtime);
        for number in 1..=MANY {
            // Every second number is left to the runtime, which may be polling the task.
            let mut guard = if number % 2 == 0 { inline_task.try_lock() } else { None };
            numbers.send(number).unwrap();
            guard.as_mut().map(PollGuard::poll_while_woken);
        }
        for number in 1..=MANY {
            assert_eq!(echoes.recv_timeout(SOON).unwrap().0, number);
        }
    }
}
