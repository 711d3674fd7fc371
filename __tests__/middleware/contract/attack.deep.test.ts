/** Malformed requests and clients that disconnect: many random cases. */
import { SEED } from '../../cases.js'
import { attackAll } from './attack.js'

attackAll(10_000, SEED)
