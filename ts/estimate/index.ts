/**
 * Estimates of what a call will use, from what the latest calls have used: for reservations. Needs neither Node.js nor
 * the addon.
 *
 * @module tollgate/estimate
 */

export { type EstimateOptions, UsageEstimator, type UsageEstimatorOptions } from './usage-estimator.js'
