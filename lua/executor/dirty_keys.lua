-- The number check and the list of dirty keys, which all twins use.

-- Whether a number is whole and from 0 to 2^53 - 1. Twins write only such numbers.
local function is_integer(number)
  return number and number >= 0 and number < 9007199254740992 and number % 1 == 0
end

-- The keys to write, their write modes, and two functions: one marks a key with a mode, the other
-- marks a key whose state is unchanged. Modes: 1 keeps the TTL, 2 sets the TTL, 3 creates the key. A
-- higher mode replaces a lower one. `stored` has the keys with a value, if the twin creates keys by
-- mode 3.
local function new_dirty_keys(stored)
  local keys, modes = {}, {}
  local function mark_dirty(key, mode)
    if not modes[key] then
      keys[#keys + 1] = key
    end
    modes[key] = math.max(modes[key] or 0, mode)
  end
  return keys, modes, mark_dirty, function(key)
    mark_dirty(key, (not stored or stored[key]) and 2 or 3)
  end
end
