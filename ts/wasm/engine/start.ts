import * as glue from '../../../generated/wasm/engine.js'
import * as host from './host.js'
import { module } from './module.js'
import { Scratch } from './scratch.js'

glue.setHost(host)

/** The scratch memory of the engine with the embedded store. */
export const scratch = new Scratch(glue, glue.initSync({ module }).memory)
