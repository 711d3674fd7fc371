-- Decides what is asked, group by group, and answers.

local at, before = 1, 0
while at <= #round.request do
  -- Behind the quick forms stands the number of keys, and behind that, if the form says so, the cost of each one's call.
  local form, high, low = string.byte(round.request, at, at + 2)
  local group, costs
  if form == 0 or form == 9 then
    at, before = general(round).decide(round, at + 1, before, form == 9)
  else
    local first, count = before + 1, high * 256 + low
    at, before = at + 3, before + count
    if form > 32 then
      form, costs = form - 32, { struct.unpack('>' .. string.rep('d', count), round.request, at) }
      at = at + 8 * count
    end
    if form == 7 or form == 10 then
      local ways = { rate_way, window_way, counter_way, interval_way }
      at, before, group = quick_several(round, at, first - 1, count, costs, form == 10, ways, unseen_way)
    elseif form == 1 then
      at, group = quick(round, 1, rate_way(), at, first, before, costs)
    elseif form == 2 then
      local _, fixed_window_quick = window_way()
      at, group = fixed_window_quick(round, at, first, before, costs)
    elseif form == 3 then
      at, group = quick(round, 3, counter_way(), at, first, before, costs)
    elseif form == 4 then
      at, group = quick(round, 4, interval_way(), at, first, before, costs)
    elseif form == 5 then
      at, group = list_way()(round, at, first, before, costs)
    else
      at, group = unseen_way()(round, at, first, before)
    end
  end
  if group then
    general(round).close(round, group)
  end
end

if round.readonly then
  return round.readonly
end
local answer = { round.now, table.concat(round.states), '', '' }
if round.made and (next(round.outcomes) or next(round.units)) then
  local codes, more = {}, {}
  for number = 1, round.count do
    local outcome = round.outcomes[number] or round.ADMITTED
    codes[number] = string.char(outcome)
    more[#more + 1] = round.units[number]
    more[#more + 1] = round.more[number]
    if outcome == round.UNWRITTEN then
      answer[#answer + 1] = round.texts[number]
    end
  end
  answer[3], answer[4] = table.concat(codes), table.concat(more)
end
return answer
