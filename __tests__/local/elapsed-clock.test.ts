/** The clock of elapsed time on platforms whose monotonic clock may stop while the machine is suspended. */
import { ElapsedClock } from '../../ts/platform/elapsed-clock.js'

/** Clocks of a machine. All times are in milliseconds. */
class Machine {
  /** The true time. */
  now = 1_000.4
  /** The time for which the monotonic clock has stood still. */
  suspended = 0
  /** How far the clock of the day is ahead. */
  step = 1_700_000_000_000.7
  /** Called between two reads of clocks. */
  onRead = () => {}
  readonly #monotonicStep: number
  readonly #wallStep: number

  /** @param monotonicStep - The steps in which each clock shows its time. */
  constructor(monotonicStep: number, wallStep: number) {
    this.#monotonicStep = monotonicStep
    this.#wallStep = wallStep
  }

  readonly monotonic = () => {
    this.onRead()
    const time = this.now - this.suspended
    return time - (time % this.#monotonicStep)
  }

  readonly wall = () => {
    this.onRead()
    const time = this.now + this.step
    return time - (time % this.#wallStep)
  }

  suspend(millis: number): void {
    this.now += millis
    this.suspended += millis
  }
}

test.each([
  [0.001, 1, 0.37],
  [0.005, 1, 1.3],
  [0.1, 1, 0.9],
  [1, 1, 0.25],
  [16.67, 16.67, 7],
  [100, 100, 31],
])('steps of %d and %d ms: read every %d ms, it runs at the speed of time', (monotonicStep, wallStep, everyMs) => {
  const machine = new Machine(monotonicStep, wallStep)
  const clock = new ElapsedClock(machine.monotonic, machine.wall)
  const start = machine.now
  let last = clock.now()
  for (let reads = 0; reads < 3_000; reads++) {
    machine.now += everyMs
    const elapsed = clock.now()
    expect(elapsed).toBeGreaterThanOrEqual(last)
    expect(Math.abs(elapsed - (machine.now - start))).toBeLessThanOrEqual(2 * wallStep + monotonicStep)
    last = elapsed
  }
})

// promise: elapsed-clock
test('a suspension counts, and so does each of several', () => {
  const machine = new Machine(0.001, 1)
  const clock = new ElapsedClock(machine.monotonic, machine.wall)
  const start = machine.now
  for (const millis of [30, 5_000, 90_000, 2]) {
    machine.suspend(millis)
    machine.now += 10
    expect(Math.abs(clock.now() - (machine.now - start))).toBeLessThanOrEqual(1.01)
  }
})

test('a step back of the clock of the day does not count, and a suspension after it does', () => {
  const machine = new Machine(0.001, 1)
  const clock = new ElapsedClock(machine.monotonic, machine.wall)
  const start = machine.now
  for (const back of [3_600_000, 400, 251]) {
    machine.now += 5
    machine.step -= back
    expect(Math.abs(clock.now() - (machine.now - start))).toBeLessThanOrEqual(1.01)
    machine.suspend(700)
    expect(Math.abs(clock.now() - (machine.now - start))).toBeLessThanOrEqual(2.01)
  }
  machine.step -= 250
  clock.now()
  machine.suspend(700)
  expect(machine.now - start - clock.now()).toBeLessThanOrEqual(253)
})

test('an interruption between the reads of the two clocks is no suspension', () => {
  const machine = new Machine(0.001, 1)
  const clock = new ElapsedClock(machine.monotonic, machine.wall)
  const start = machine.now
  for (let interrupted = 0; interrupted < 9; interrupted++) {
    let reads = 0
    machine.onRead = () => {
      machine.now += reads++ === interrupted ? 500 : 0.001
    }
    clock.now()
    machine.onRead = () => {}
    expect(Math.abs(clock.now() - (machine.now - start))).toBeLessThanOrEqual(1.01)
  }
})

test('where all reads are interrupted, a later read counts a suspension', () => {
  const machine = new Machine(0.001, 1)
  const clock = new ElapsedClock(machine.monotonic, machine.wall)
  const start = machine.now
  machine.suspend(5_000)
  machine.onRead = () => {
    machine.now += 20
  }
  const [before] = [machine.now, clock.now()]
  machine.onRead = () => {}
  expect(before).toBeLessThan(machine.now)
  expect(Math.abs(clock.now() - (machine.now - start))).toBeLessThanOrEqual(1.01)
})
