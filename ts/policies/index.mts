/** The names of the module for `import`. */
export {
  concurrency,
  fixedWindow,
  gcra,
  leakyBucket,
  slidingCounter,
  slidingLog,
  slidingWindow,
  tiers,
  tokenBucket,
} from './index.js'
