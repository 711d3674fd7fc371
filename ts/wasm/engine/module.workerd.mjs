// Takes the place of module.ts in what is for workerd, which compiles modules when a Worker is deployed and none at run time.
import module from '../../../wasm/tollgate.wasm'

export { module }
