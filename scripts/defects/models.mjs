/** Defects in what threads share. `npm run models` finds each. */

const STORE = 'src/memory/mod.rs'
const TASK = 'src/redis/inline_io/inline_task.rs'
const OWNERSHIP = 'src/redis/inline_io/read_ownership.rs'
const SOCKET = 'src/redis/inline_io/socket.rs'

export default {
  'capacity that is claimed in two steps': [
    STORE,
    `        let claim = |held| (held < self.max_keys).then_some(held + 1);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_ok()`,
    `        let held = self.held.load(Ordering::SeqCst);
        self.held.store(self.max_keys.min(held + 1), Ordering::SeqCst);
        held < self.max_keys`,
  ],
  'a sweep that waits for the other shard': [
    STORE,
    'if let Ok(mut other) = self.shards[next_swept].0.try_lock() {',
    'if let Ok(mut other) = self.shards[next_swept].0.lock() {',
  ],
  'shards that are locked in the order of the keys': [
    'src/memory/limiter/multi_key.rs',
    'numbers.insert(index, number);',
    '{ let _ = index; numbers.push(number); }',
  ],
  'a lock that is released between reading and writing a state': [
    'src/memory/limiter/mod.rs',
    `                let decision = take(policy, &mut state, now);
                if state != before {`,
    `                let decision = take(policy, &mut state, now);
                drop(shard);
                let mut shard = self.store.shard(hash);
                if state != before {`,
  ],
  'a limiter that is closed in two steps': [
    'src/memory/limiter/mod.rs',
    'if !self.closed.swap(true, Ordering::Relaxed) {',
    'if !self.closed.load(Ordering::SeqCst) {\n            self.closed.store(true, Ordering::SeqCst);',
  ],
  'named stores that are found and added under two locks': [
    'src/memory/named.rs',
    '        named.insert(name.to_owned()',
    '        drop(named);\n        let mut named = locked(&NAMED_STORES);\n        named.insert(name.to_owned()',
  ],
  'the known window of a calendar, written in two steps': [
    'src/calendar/mod.rs',
    'self.0.store(end << Self::SPAN_BITS | span, Ordering::Relaxed);',
    `self.0.fetch_and(!((1 << Self::SPAN_BITS) - 1), Ordering::SeqCst);
            self.0.fetch_or(span, Ordering::SeqCst);
            self.0.fetch_and((1 << Self::SPAN_BITS) - 1, Ordering::SeqCst);
            self.0.fetch_or(end << Self::SPAN_BITS, Ordering::SeqCst);`,
  ],
  'a wake-up that does not make earlier writes visible': [
    TASK,
    'self.state.fetch_or(WOKEN, Ordering::AcqRel)',
    'self.state.fetch_or(WOKEN, Ordering::Acquire)',
  ],
  'a poll that does not see the writes before its wake-up': [
    TASK,
    'self.state.fetch_and(!WOKEN, Ordering::AcqRel);',
    'self.state.fetch_and(!WOKEN, Ordering::Relaxed);',
  ],
  'a guard that drops a wake-up': [TASK, 'if has_ended || before & WOKEN != 0 {', 'if has_ended || before == 0 {'],
  'a guard that drops the end of its task': [TASK, 'if has_ended || before', 'if before'],
  'a guard whose end does not see a wake-up': [
    TASK,
    'let before = self.waker.state.fetch_and(!GUARDED, Ordering::AcqRel);',
    `let before = self.waker.state.load(Ordering::SeqCst);
        self.waker.state.fetch_and(!GUARDED, Ordering::SeqCst);`,
  ],
  'a wake-up that a poll forgets at its end': [
    TASK,
    `        if polled.is_pending() {
`,
    `        if polled.is_pending() {
            self.state.fetch_and(!WOKEN, Ordering::AcqRel);
`,
  ],
  'a runtime that registers its waker after the poll': [
    TASK,
    `        self.waker.runtime.register(context.waker());
        // Other threads hold the lock only briefly.
        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        self.waker.poll_once(&mut future)`,
    `        let mut future = self.future.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = self.waker.poll_once(&mut future);
        self.waker.runtime.register(context.waker());
        polled`,
  ],
  'a read that forgets the notifications that came during it': [
    SOCKET,
    'Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}\n                Err(error) => {\n                    read_ownership',
    `Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    read_ownership.start_read();
                }
                Err(error) => {
                    read_ownership`,
  ],
  'a watchdog that does not hear of a claim': [OWNERSHIP, 'self.claimed.notify_one();', ''],
  'a watchdog that does not wake the driver': [
    OWNERSHIP,
    'self.request_read(&*driver.upgrade()?);',
    'self.mark_readable();\n                driver.upgrade()?;',
  ],
  'a watchdog that does not mark the socket readable and never releases it': [
    OWNERSHIP,
    `                self.release();
            }
            if missed > 0 {
                self.request_read(&*driver.upgrade()?);`,
    `            }
            if missed > 0 {
                driver.upgrade()?.wake();`,
  ],
  'a released socket whose driver is not woken': [
    'src/redis/inline_io/socket_handle.rs',
    '            driver.wake();\n',
    '            let _ = driver;\n',
  ],
}
