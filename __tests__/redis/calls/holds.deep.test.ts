/** Reservations of several processes on one Redis for long, with every kind of result. */
import { openedRedis } from '../opened.js'
import { describeReserving } from '../reserving.js'

describeReserving(openedRedis(), 2_000, ['allowed', 'refused', 'settled', 'again', 'expired', 'forgotten'])
