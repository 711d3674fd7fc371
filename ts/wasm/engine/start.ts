import * as glue from '../../../wasm/engine.js'
import * as host from './host.js'
import { module } from './module.js'
import { Desk } from './scratch.js'

glue.setHost(host)

/** The desk of the engine with the embedded store. */
export const desk = new Desk(glue, glue.initSync({ module }).memory)
