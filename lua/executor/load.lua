-- Creates the general path, once.
local function load_general_path(context)
  --@include executor/outcomes.lua
  --@include executor/dirty_keys.lua
  --@include executor/key_metadata.lua
  --@include executor/executor.lua
  --@include rate/general.lua
  --@include fixed_window/general.lua
  --@include sliding_counter/general.lua
  --@include token_bucket_interval/shared.lua
  --@include token_bucket_interval/general.lua
  --@include sliding_window/shared.lua
  --@include sliding_window/general.lua
  --@include sliding_window/list.lua
  --@include sliding_window/hash.lua
  --@include sliding_log.lua
  --@include executor/holds.lua
  --@include executor/operations.lua
  --@include executor/general.lua
end
