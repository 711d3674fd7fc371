-- The algorithms of the general path. executor/executor.lua documents the functions that a file
-- defines for its algorithm. dispatch/fast_paths.lua has the fast paths.
--@include rate/general.lua
--@include fixed_window/general.lua
--@include sliding_counter/general.lua
--@include token_bucket_interval/shared.lua
--@include token_bucket_interval/general.lua
--@include sliding_window/shared.lua
--@include sliding_window/general.lua
--@include sliding_window/list.lua
--@include sliding_window/hash.lua
--@include sliding_log/general.lua
--@include concurrency/general.lua

local algorithms = {
  [ALGORITHM_RATE] = rate,
  [ALGORITHM_FIXED_WINDOW] = fixed_window,
  [ALGORITHM_SLIDING_COUNTER] = sliding_counter,
  [ALGORITHM_TOKEN_BUCKET_INTERVAL] = token_bucket_interval,
  [ALGORITHM_SLIDING_WINDOW_LIST] = sliding_window_list,
  [ALGORITHM_SLIDING_WINDOW_HASH] = sliding_window_hash,
  [ALGORITHM_SLIDING_LOG] = sliding_log,
  [ALGORITHM_CONCURRENCY] = concurrency,
}
