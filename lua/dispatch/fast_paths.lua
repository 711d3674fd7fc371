-- The fast paths, by the number of the algorithm. Each entry creates the function that finds the
-- states after the calls, or the function that decides them itself.
local fast_paths = {
  [ALGORITHM_RATE] = function()
    --@include rate/fast_path.lua
  end,
  [ALGORITHM_FIXED_WINDOW] = function()
    --@include fixed_window/fast_path.lua
  end,
  [ALGORITHM_SLIDING_COUNTER] = function()
    --@include sliding_counter/fast_path.lua
  end,
  [ALGORITHM_TOKEN_BUCKET_INTERVAL] = function()
    --@include token_bucket_interval/fast_path.lua
  end,
  [ALGORITHM_SLIDING_WINDOW_LIST] = function()
    --@include sliding_window/list_fast_path.lua
  end,
}
local function window_optimistic()
  --@include fixed_window/optimistic.lua
end
