-- Whether a number that was read is one that was written: whole, and counted exactly.
local function is_integer(number)
  return number and number >= 0 and number < 9007199254740992 and number % 1 == 0
end

-- The keys to be written, and how: 1 with the TTL as it is, 2 with a new one, 3 if there was none.
local function new_dirty_keys()
  local keys, modes = {}, {}
  return keys, modes, function(key, mode)
    if not modes[key] then
      keys[#keys + 1] = key
      modes[key] = mode
    elseif modes[key] < mode then
      modes[key] = mode
    end
  end
end
