-- The quick way for one call on each key that takes units, by far the most frequent groups: one unit, or the `costs` that
-- are given by key.
--
-- For those an algorithm's file brings a function that is given the values of the keys of a policy and tells of each what
-- the call would leave, if that is simple, and how long a value is: it changes its state in place with SETRANGE, and its
-- TTL stays as it is. Of windows it tells the packed window, which INCR moves on.

-- Of one policy.
local function quick(round, algorithm, units_of, at, first, last, costs)
  local names, call, before = KEYS, redis.pcall, first - 1
  -- Not pcall: who may not read gets an error before anything has been written.
  local values = redis.call('MGET', unpack(names, first, last))
  local after, states, size = units_of(round, at, values, last - before, costs)
  -- From there on states are not told yet.
  local untold, group = 1
  for number = 1, last - before + 1 do
    local state = states[number]
    if state then
      local written = call('SETRANGE', names[before + number], '0', state)
      if written ~= size then
        round.general(round).fail(round, round.count + number - untold + 1, written)
      end
    else
      if untold < number then
        round.count = round.count + number - untold
        round.states[#round.states + 1] = table.concat(states, '', untold, number - 1)
      end
      untold = number + 1
      if before + number <= last then
        local cost = costs and costs[number]
        group = round.general(round).leave(round, group, algorithm, at, before + number, values[number], cost)
      end
    end
  end
  return after, group
end
