-- Decides what is asked, group by group, and answers.

-- The general way is made when it is first needed.
local made
general = function()
  made = made or make_general()
  return made
end

local at, before = 1, 0
while at <= #round.request do
  local form
  form, at = struct.unpack('>I1', round.request, at)
  if form == 0 or form == 9 then
    at, before = general().decide(round, at, before, form == 9)
  elseif form == 7 or form == 10 then
    local group
    at, before, group = quick_several(round, at, before, form == 10)
    if group then
      general().close(round, group)
    end
  else
    local first, group = before + 1
    before, at = struct.unpack('>I2', round.request, at)
    before = before + first - 1
    if form == 1 then
      at, group = quick(round, 1, rate_units, at, first, before)
    elseif form == 2 then
      at, group = fixed_window_quick(round, at, first, before)
    elseif form == 3 then
      at, group = quick(round, 3, sliding_counter_units, at, first, before)
    elseif form == 4 then
      at, group = quick(round, 4, token_bucket_interval_units, at, first, before)
    elseif form == 5 then
      at, group = general().sliding_window_list_quick(round, at, first, before)
    else
      at, group = fixed_window_unseen(round, at, first, before)
    end
    if group then
      general().close(round, group)
    end
  end
end

if round.readonly then
  return round.readonly
end
local answer = { round.now, table.concat(round.states), '', '' }
if next(round.outcomes) or next(round.units) then
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
