-- Whether a number that was read is one that was written: whole, and counted exactly.
local function whole(number)
  return number and number >= 0 and number < 9007199254740992 and number % 1 == 0
end

-- The keys to be written, and how: 1 with the TTL as it is, 2 with a new one, 3 if there was none.
local function new_marks()
  local keys, how = {}, {}
  return keys, how, function(key, as)
    if not how[key] then
      keys[#keys + 1] = key
      how[key] = as
    elseif how[key] < as then
      how[key] = as
    end
  end
end
