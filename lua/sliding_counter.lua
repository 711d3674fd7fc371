-- The twin of src/algorithm/sliding_counter.rs.
--
-- A value is four doubles: the end of a window of the epoch's grid, the units admitted in it, those
-- admitted in the window before, and the length of both windows. Times are in milliseconds. All are whole;
-- a count times the length is below 2^53, and what divides here divides such a product.
--
-- A policy is the limit and the window's length. A state's three numbers are the first three of a value.

local values = redis.call('MGET', unpack(KEYS))
local pack, unpack_struct = struct.pack, struct.unpack

local LIMIT = 9007199254740992
local LONGEST = 4503599627370 -- 2^52 microseconds

-- Nothing changes between whole milliseconds.
local now_ms = (now - now % 1000) / 1000

-- The policy of the group whose calls are decided, and the end of its window that is open.
local limit, window, open_end

-- By key: the state, and its window's length. Nil is a value that cannot be read.
local ends, currents, previouses, lengths = {}, {}, {}, {}
-- By call: the state that it left.
local states = {}
local NOTHING = pack('>ddd', 0, 0, 0)

-- The end of the window of the grid that is open.
local function end_of_window(length)
  return now_ms - now_ms % length + length
end

-- Whether a number read from a value is one that was written.
local function whole(number)
  return number >= 0 and number < LIMIT and number % 1 == 0
end

local function read(key)
  local value = values[key]
  if not value then
    ends[key], currents[key], previouses[key], lengths[key] = 0, 0, 0, window
    return
  end
  if #value ~= 32 then
    return
  end
  local window_end, current, previous, length = unpack_struct('>dddd', value)
  if
    not (whole(window_end) and whole(current) and whole(previous) and whole(length))
    or length < 1 or length > LONGEST or window_end % length ~= 0
    or current * length >= LIMIT or previous * length >= LIMIT
  then
    return
  end
  if window_end > now_ms + 2 * length then
    -- Left by a clock that has stepped back: as fully used in the window that is open, as far as a value
    -- can count.
    local most = LIMIT - 1
    local full = math.min(limit, (most - most % length) / length)
    window_end, current, previous = end_of_window(length), math.max(current, full), 0
    mark(key, 2)
  end
  ends[key], currents[key], previouses[key], lengths[key] = window_end, current, previous, length
end

-- Charges the state of a key, and tells what became of it.
local function charge(key, cost)
  local window_end = ends[key]
  if not window_end then
    return UNREADABLE
  end
  if cost == 0 then
    return ADMITTED
  end
  if cost > limit then
    return IMPOSSIBLE
  end
  local current, previous, length = currents[key], previouses[key], lengths[key]
  local rolls = now_ms >= window_end
  if rolls then
    local next_end = end_of_window(length)
    current, previous = 0, next_end - window_end == length and current or 0
    window_end = next_end
  end
  local product = previous * math.min(window_end - now_ms, length)
  local rest = product % length
  local used = current + (product - rest) / length
  if rest > 0 then
    used = used + 1
  end
  if used + cost > limit then
    return REFUSED
  end
  if length ~= window then
    ends[key], currents[key], previouses[key], lengths[key] = open_end, used + cost, 0, window
    mark(key, 2)
  else
    ends[key], currents[key], previouses[key] = window_end, current + cost, previous
    mark(key, not values[key] and 3 or rolls and 2 or 1)
  end
  return ADMITTED
end

local function decide(key, cost)
  local outcome = charge(key, cost)
  calls = calls + 1
  key_of[calls] = key
  local length = lengths[key]
  if length and length ~= window then
    outcome = outcome + OTHER
    numbers_of[calls] = pack('>d', length)
  end
  if outcome ~= ADMITTED then
    outcomes[calls] = outcome
  end
  states[calls] = length and pack('>ddd', ends[key], currents[key], previouses[key]) or NOTHING
end

local function save_all()
  for _, key in ipairs(dirty) do
    local window_end, length = ends[key], lengths[key]
    local state = pack('>ddd', window_end, currents[key], previouses[key])
    if how[key] == 1 then
      -- The window is the same, and so is the TTL.
      local written = write('SETRANGE', names[key], '0', state)
      if written ~= 32 then
        fail(key, 1, written)
      end
    else
      -- What was admitted counts until the end of the next window. One millisecond more: Redis's clock for
      -- expiry may lag behind this script's.
      save(key, state .. pack('>d', length), window_end + length - now_ms + 1)
    end
  end
  dirty = {}
end

local at, before = 1, 0
while at <= #request do
  local count, listed
  count, listed, limit, window, at = unpack_struct('>I2I2dd', request, at)
  open_end = end_of_window(window)

  if listed == 0 then
    -- One unit for each key, by far the most frequent group: what the functions above do, without their
    -- calls and tables, for a key whose value is of the window that is open and has room for a unit.
    local overlap = open_end - now_ms
    for key = before + 1, before + count do
      local value, state = values[key]
      if value and #value == 32 then
        local window_end, current, previous, length = unpack_struct('>dddd', value)
        if
          window_end == open_end and length == window
          and current >= 0 and current % 1 == 0 and previous >= 0 and previous % 1 == 0
        then
          local used = current + 1
          if previous > 0 then
            local product = previous * overlap
            local rest = product % window
            used = used + (product - rest) / window
            if rest > 0 then
              used = used + 1
            end
          end
          -- That it has room says, too, that the product was exact.
          if used <= limit then
            state = pack('>ddd', window_end, current + 1, previous)
          end
        end
      end
      if state then
        calls = calls + 1
        states[calls] = state
        local written = write('SETRANGE', names[key], '0', state)
        if written ~= 32 then
          key_of[calls] = key
          fail(key, calls, written)
        end
      else
        read(key)
        decide(key, 1)
      end
    end
  else
    for key = before + 1, before + count do
      read(key)
    end
    for _ = 1, listed do
      local key, cost
      key, cost, at = unpack_struct('>I2d', request, at)
      decide(before + key, cost)
    end
  end
  if not peeks then
    save_all()
  end
  before = before + count
end

return answered(table.concat(states))
