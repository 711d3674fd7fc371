-- Creates the general path, once.
local function load_general_path(context)
  --@include executor/outcomes.lua
  --@include executor/dirty_keys.lua
  --@include executor/key_metadata.lua
  --@include executor/owed.lua
  --@include executor/executor.lua
  --@include algorithms.lua
  --@include executor/holds.lua
  --@include executor/refunds.lua
  --@include executor/operations.lua
  --@include executor/general.lua
end
