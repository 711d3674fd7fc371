import type { Fault } from '../fault.js'
import { ACCESS_FAULTS } from './access.js'
import { CLOCK_FAULTS } from './clocks.js'
import { CLUSTER_FAULTS } from './cluster.js'
import { ENDING_FAULTS } from './endings.js'
import { FALLBACK_FAULTS } from './fallback.js'
import { LEAK_FAULTS } from './leaks.js'
import { LEASE_FAULTS } from './leases.js'
import { NETWORK_FAULTS } from './network.js'
import { PROCESS_FAULTS } from './process.js'
import { SENTINEL_FAULTS } from './sentinel.js'
import { SERVICE_FAULTS } from './service.js'
import { SEVERAL_FAULTS } from './several.js'
import { TLS_FAULTS } from './tls.js'

/** All faults, in the order of the report. */
export const FAULTS: readonly Fault[] = [
  ...PROCESS_FAULTS,
  ...SERVICE_FAULTS,
  ...NETWORK_FAULTS,
  ...ACCESS_FAULTS,
  ...TLS_FAULTS,
  ...SENTINEL_FAULTS,
  ...CLUSTER_FAULTS,
  ...CLOCK_FAULTS,
  ...ENDING_FAULTS,
  ...SEVERAL_FAULTS,
  ...FALLBACK_FAULTS,
  ...LEASE_FAULTS,
  ...LEAK_FAULTS,
]
