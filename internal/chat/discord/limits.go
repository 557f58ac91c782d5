package discord

import (
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// What Discord takes, in characters unless it says otherwise. Read 2026-11-29
// from Discord's developer documentation: Message, Components Reference,
// Application Commands, Receiving and Responding, Reference.
const (
	maxContent   = 2000
	maxCustomID  = 100
	maxLabel     = 80  // a button's
	maxThread    = 100 // a thread's name
	maxRow       = 5   // buttons in a row
	maxRows      = 5   // rows of a message
	maxOptions   = 25  // of a select
	maxChoices   = 25  // of an autocompletion
	maxChoice    = 100 // a choice's name and value
	maxTitle     = 45  // a modal's title, and a label in it
	maxInput     = 4000
	maxFile      = 10 << 20 // bytes of a file, where the interaction names no limit
	maxUpload    = 25 << 20 // bytes of a whole request
	maxPage      = 100      // messages of one page of a channel's history
	maxNonce     = 25
	maxActive    = 10080 // minutes until a quiet thread is archived
	tokenLives   = 15 * time.Minute
	epochMillis  = 1420070400000 // a snowflake's time counts from here
	messageGuest = 1 << 4        // flag of a member who is a guest
)

// What we use of it.
const (
	// shownText is the room for text in a message: the mark takes the rest.
	shownText = maxContent - markLength - 5
	// maxParts is how many messages an answer may take before it becomes a file.
	maxParts = 6
	// reasonsShown bounds the reasons on an approval card, evidenceShown what the
	// command would lose, lineShown a line.
	reasonsShown  = 500
	evidenceShown = 400
	lineShown     = 300
	// nameShown bounds a name, summaryShown a turn card's first line, othersShown the
	// mentions of who is told though they may not approve.
	nameShown    = 80
	summaryShown = 700
	othersShown  = 150
	// leastCommand is the room for a command that a card has whatever else is on it.
	leastCommand = 300
	// shownLine bounds a command on a turn card, stateShown what came of it, tailLine a
	// line of its output.
	shownLine  = 120
	stateShown = 600
	tailLine   = 100
	// callsShown is how many calls a page of a turn's details shows, factShown what
	// of a line about one, outputLines the most lines of an output.
	callsShown  = 5
	factShown   = 300
	outputLines = 60
	// fileMargin is what a request with files needs beside them.
	fileMargin = 64 << 10
	// maxTyped bounds a reason: at four bytes a character it stays below
	// [chat.MaxReason].
	maxTyped = 1000
)

// The application's budget as the engine paces it: Discord takes 50 calls a second
// in all (Rate Limits, Global Rate Limit), and in one channel about one a second;
// the rest is said by its headers.
const (
	CallsPerSecond   = 20.0
	CallsPerSession  = 1.0
	minRefresh       = 2 * time.Second
	maxRefresh       = 30 * time.Second
	deniedRetryAfter = time.Minute
)

const (
	// answerWithin bounds the first answer to an interaction: Discord waits 3 s.
	answerWithin = 2500 * time.Millisecond
	// lookWithin bounds the one query that a modal may wait for.
	lookWithin = 1500 * time.Millisecond
	// lookAgain is the pause before a look that was not answered is taken again.
	lookAgain = 100 * time.Millisecond
	// outcomeWithin bounds what an event asks of Temporal.
	outcomeWithin = 10 * time.Second
	// shareWithin bounds reading an output and posting it as files.
	shareWithin = 2 * time.Minute
	// tellWithin bounds telling a person.
	tellWithin = 30 * time.Second
	// callTimeout bounds one HTTP request to Discord.
	callTimeout = 20 * time.Second
	// bucketWait is the longest wait for a rate limit inside a call; for a longer
	// one the call fails and says when to come again.
	bucketWait = 5 * time.Second
	// cacheFor bounds how old what is known of members and roles may be.
	cacheFor = 55 * time.Second
	// rememberFor is how long events and places are remembered, rememberMost how
	// many of each.
	rememberFor  = 10 * time.Minute
	rememberMost = 10000
	// deletedFor is how long it is remembered to whom a message was given, so that its
	// deletion is told: it may wait for as long as people take to approve another's.
	deletedFor = 24 * time.Hour
	// placesFor is how long it is remembered what and where a channel or thread is:
	// that does not change, and a new name comes as an event.
	placesFor = 24 * time.Hour
	// pace is the time between two calls of the back-fill.
	pace = 500 * time.Millisecond
	// handlers bounds the events that are worked on at a time.
	handlers = 256
)

// size is a text's length as Discord's clients count it, in UTF-16 units: never
// less than its characters.
func size(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// cut shortens s to at most n units; the last one is then an ellipsis.
func cut(s string, n int) string {
	if size(s) <= n {
		return s
	}
	used := 1
	for i, r := range s {
		if used += max(utf16.RuneLen(r), 1); used > n {
			return s[:i] + "…"
		}
	}
	return s
}

func length(s string) int { return utf8.RuneCountInString(s) }
