/** Malformed requests and clients that disconnect: fixed cases. `attack.deep.test.ts` draws others. */
import { attackAll } from './attack.js'

attackAll(300, 1)
