/** Several processes with wrong clocks share one limit for long, and get nearly all units that it promises. */
import { describeHotKeys } from '../hot-keys.js'

describeHotKeys(10_000, true)
