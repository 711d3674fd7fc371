-- Units of operations: a number, or a table by policy.

-- Whether there are any units.
local function has_units(units)
  if type(units) ~= 'table' then
    return units > 0
  end
  for _, own in ipairs(units) do
    if own > 0 then
      return true
    end
  end
  return false
end

-- The result of a call that has charged a cost: 1 if it is by policy.
local function charged_units(cost)
  return type(cost) ~= 'table' and cost or has_units(cost) and 1 or 0
end

-- Units of an operation that charges none under policies for concurrency.
local function without_permits(group, units)
  local own, holds_permits = {}, false
  for index, executor in ipairs(group.executors) do
    holds_permits = holds_permits or executor.permit_functions
    own[index] = executor.permit_functions and 0 or units_of(units, index)
  end
  return holds_permits and own or units
end

-- Units of an operation that charges some under policies for concurrency alone.
local function only_permits(group, units)
  local own = {}
  for index, executor in ipairs(group.executors) do
    own[index] = executor.permit_functions and units_of(units, index) or 0
  end
  return own
end

-- The result of an operation that has moved units by policy: the most of them, and all of them as text
-- if its units are by policy.
local function moved_units(group, moved)
  local most, by_policy = 0, {}
  for index = 1, #group.executors do
    local own = moved[index] or 0
    most = math.max(most, own)
    by_policy[index] = context.is_metered and struct.pack('>d', own) or ''
  end
  return most, table.concat(by_policy)
end

-- The bytes of units as text.
local function size_of_units(group)
  return context.is_metered and 8 * #group.executors or 8
end

-- Units as text, made from each number of two such texts.
local function combine_units(units, others, combine)
  local combined = {}
  for at = 1, #units, 8 do
    local own, other = unpack_struct('>d', units, at), unpack_struct('>d', others, at)
    combined[#combined + 1] = struct.pack('>d', combine(own, other))
  end
  return table.concat(combined)
end
