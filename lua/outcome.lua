-- What became of a call. A script answers with a flat list: now, then for each call its outcome and the two
-- numbers of the state that it left, and at the end what belongs to outcomes with OTHER.
local ADMITTED = 0
local REFUSED = 1
local IMPOSSIBLE = 2
local UNREADABLE = 3 -- the key holds something that no limiter wrote; the numbers mean nothing
local UNWRITTEN = 4 -- in place of the first number stands Redis's error text
local OTHER = 8 -- added to an outcome whose state is in other numbers than the policy's; they come at the end

-- Puts what became of the writing of a key in place of the outcomes of its calls.
local function fail(answer, calls, key, keys_of, outcome, text)
  for call = 1, calls do
    if not keys_of and call == key or keys_of and keys_of[call] == key then
      answer[call * 3 - 1], answer[call * 3] = outcome, text
    end
  end
end
