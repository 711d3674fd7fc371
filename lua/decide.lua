-- Decides what is asked, group by group, and answers.

-- Decides a group in the general way; answers with where the request goes on, and the last of the group's keys.
local function general(round, at, before)
  -- By the number that a request gives them.
  local algorithms = {
    rate, fixed_window, sliding_counter, token_bucket_interval, sliding_window_list, sliding_window_hash, sliding_log,
  }
  local calls, policies
  calls, policies, at = struct.unpack('>I2I1', round.request, at)
  local all, befores, count = {}, {}
  for index = 1, policies do
    local algorithm
    algorithm, count, at = struct.unpack('>I1I2', round.request, at)
    local books = open(round, algorithms[algorithm], at)
    all[index], befores[index], all.stale = books, before, all.stale or books.stale
    if not books.stale then
      local values = books.strings and redis.call('MGET', unpack(KEYS, before + 1, before + count))
      for key = before + 1, before + count do
        books.read(key, values and values[key - before])
      end
    end
    at, before = books.after, before + count
  end

  local keys = {}
  if calls == 0 then
    for number = 1, count do
      for index = 1, policies do
        keys[index] = befores[index] + number
      end
      take(round, all, keys, 1)
    end
  end
  for _ = 1, calls do
    for index = 1, policies do
      keys[index], at = struct.unpack('>I2', round.request, at)
      keys[index] = keys[index] + befores[index]
    end
    local cost
    cost, at = struct.unpack('>d', round.request, at)
    take(round, all, keys, cost)
  end
  for index = 1, policies do
    close(round, all[index])
  end
  return at, before
end

local at, before = 1, 0
while at <= #round.request do
  local form
  form, at = struct.unpack('>I1', round.request, at)
  if form == 0 then
    at, before = general(round, at, before)
  else
    local first, books = before + 1
    before, at = struct.unpack('>I2', round.request, at)
    before = before + first - 1
    if form == 1 then
      at, books = rate_quick(round, at, first, before)
    elseif form == 2 then
      at, books = fixed_window_quick(round, at, first, before)
    elseif form == 3 then
      at, books = sliding_counter_quick(round, at, first, before)
    elseif form == 4 then
      at, books = token_bucket_interval_quick(round, at, first, before)
    elseif form == 5 then
      at, books = sliding_window_list_quick(round, at, first, before)
    else
      at, books = fixed_window_quick(round, at, first, before, true)
    end
    if books then
      close(round, books)
    end
  end
end

if round.readonly then
  return round.readonly
end
local answer = { round.now, table.concat(round.states), '', '' }
if next(round.outcomes) or next(round.others) then
  local codes, others = {}, {}
  for number = 1, round.count do
    local outcome, other = round.outcomes[number] or round.ADMITTED, round.others[number]
    if other then
      outcome, others[#others + 1] = outcome + round.OTHER, other
    end
    codes[number] = string.char(outcome)
    if outcome % round.OTHER == round.UNWRITTEN then
      answer[#answer + 1] = round.texts[number]
    end
  end
  answer[3], answer[4] = table.concat(codes), table.concat(others)
end
return answer
