-- What became of a call. Each outcome is followed in the answer by what belongs to it.
local ADMITTED = 0 -- by the state
local REFUSED = 1 -- by the state
local IMPOSSIBLE = 2 -- by the state
local UNREADABLE = 3 -- by nothing: the key holds something that no limiter wrote
local UNWRITTEN = 4 -- by Redis's error text
local OTHER = 8 -- added to an outcome whose state is in other numbers than the policy's; they follow it
