-- The number check and the list of dirty keys, which all twins use.

-- Whether a number is whole and from 0 to 2^53 - 1. Twins write only such numbers.
local function is_integer(number)
  return number and number >= 0 and number < 9007199254740992 and number % 1 == 0
end

-- The keys to write, their write modes, and the function that marks a key. Modes: 1 keeps the TTL,
-- 2 sets the TTL, 3 creates the key. A higher mode replaces a lower one.
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
