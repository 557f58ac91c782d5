package slack

import "time"

// What Slack takes, in characters unless it says otherwise. Read 2026-11-29 from
// docs.slack.dev/reference/block-kit (blocks and elements), the methods' pages,
// and, where Slack documents nothing, from what its SDKs' issues report
// (bolt-js#2509 for maxBlocksText).
const (
	maxSection    = 3000    // text of a section
	maxHeader     = 150     // text of a header block
	maxContext    = 2000    // an element of a context block
	maxButton     = 75      // a button's or option's label
	maxBlockID    = 255     // block_id and action_id
	maxViewBlocks = 100     // blocks of a modal
	maxOptions    = 100     // options of a select
	maxMarkdown   = 12000   // all markdown blocks of a message together
	maxBlocksText = 13200   // all text in a message's blocks together
	maxText       = 4000    // bytes of the text of chat.update
	maxInput      = 3000    // what a modal's input holds
	maxViewTitle  = 24      // a modal's title and its buttons
	maxPrivate    = 3000    // private_metadata of a modal
	maxView       = 250_000 // bytes of a modal (views.update: view_too_large)
	// maxAnswer is an answer to an envelope, in bytes: Socket Mode drops 20 KiB and
	// more without a word, and its frame takes some.
	maxAnswer = 20<<10 - 512
)

// What we use of it: a margin, because Slack counts in ways that it does not say.
const (
	// markdownPart is the length of one part of an answer.
	markdownPart = maxMarkdown - 1000
	// markdownPieces is how many headings, blocks of code and runs of text a part may
	// have: Slack is said to make a block of each, and a message has 50.
	markdownPieces = 40
	// maxParts is how many messages an answer may take before it becomes a file.
	maxParts = 3
	// shownCommand is the longest command that an approval card shows whole, and
	// so lets be approved from the card.
	shownCommand = maxInput
	// cardText is all text of a card, cardLine one line or box of it.
	cardText = maxBlocksText - 1200
	cardLine = 3200
	// What an approval card shows beside its command: all of it is less than cardText.
	titleShown   = 500
	whereShown   = 1500
	askedShown   = 1500
	outcomeShown = 1600
	// nameShown bounds a name, summaryShown a turn card's first line, stateShown what came
	// of a call.
	nameShown    = 80
	summaryShown = 2000
	stateShown   = 600
	// shownLine bounds a command's line and a line of output on a turn card.
	shownLine = 300
	tailLine  = 160
	// reasonsShown bounds the reasons on an approval card, evidenceShown what the
	// command would lose.
	reasonsShown  = 2500
	evidenceShown = 1000
	// maxTyped bounds a reason: at four bytes a character it stays below
	// [chat.MaxReason].
	maxTyped = 1000
	// shownBeginning is what of a command is shown whose file has all of it.
	shownBeginning = 1000
	// reviewText is the longest review that a modal shows; a longer one is a file.
	reviewText = 40000
	// callsShown is how many calls a page of a turn's details shows: two blocks each,
	// of at most commandShown characters of the command and factShown of a line. At
	// four bytes a character all stays below maxView.
	callsShown   = 8
	commandShown = 2500
	factShown    = 600
	// outputShown is how much of a stream a modal shows: both streams of it, at six
	// bytes an escaped character, stay below maxView.
	outputShown = 18000
	// maxUpload bounds a file with output, in bytes; of a longer one the middle is
	// left out. Slack takes a gigabyte.
	maxUpload = 32 << 20
	// fallbackText is the length of the text beside the blocks, before escaping.
	fallbackText = 2800
)

// The two budgets of a team that the engine paces by the queues' rates: posts
// per second and channel, edits per minute and team. chat.update is tier 3, 50 a
// minute (docs.slack.dev/apis/web-api/rate-limits); a few of these are left for
// questions that a click has answered, which no queue holds.
const (
	PostsPerSecond = 1.0
	EditsPerMinute = 46.0
)

const (
	// ackWithin is how long an event may take before it is left unacknowledged,
	// for Slack to repeat: it waits 3 seconds.
	ackWithin = 2 * time.Second
	// twinWait is how long the message event of a mention waits for its app_mention,
	// twinAnswer how long its answer waits for the answer to that.
	twinWait   = 400 * time.Millisecond
	twinAnswer = 2 * time.Second
	// outcomeWithin bounds what a command or click that was acknowledged asks of
	// Temporal.
	outcomeWithin = 10 * time.Second
	// shareWithin bounds reading an output and posting it as files.
	shareWithin = 2 * time.Minute
	// answerWithin bounds telling a person.
	answerWithin = 20 * time.Second
	// callTimeout bounds one HTTP request to Slack.
	callTimeout = 20 * time.Second
	// viewAnswer is how long a modal's submission may wait for its outcome before
	// it is answered with a placeholder.
	viewAnswer = 1800 * time.Millisecond
	// answerSettles is how long Slack gets to do to a modal what an answer says.
	answerSettles = 700 * time.Millisecond
	// cacheFor bounds how old what is known of people and groups may be.
	cacheFor = 55 * time.Second
	// rememberFor is how long events and threads are remembered.
	rememberFor = 10 * time.Minute
	// rememberMost bounds how many of each.
	rememberMost = 10000
	// overlap is how much further back than the last byte of a connection the
	// back-fill reads.
	overlap = 10 * time.Second
	// lasted is how long a connection must last to be renewed without a pause.
	lasted = 5 * time.Second
	// uninvitedRetry is the time between two tries to write where the bot is no member
	// any more, invitedBack how long a private channel that it does not see is taken for
	// one that it was removed from, not for one that is gone: Slack says the same.
	uninvitedRetry = time.Minute
	invitedBack    = time.Hour
	// maxRetries is how often Slack repeats an event that was not acknowledged.
	maxRetries = 3
	// pace is the time between two calls of the back-fill: below tier 3's 50 a
	// minute, which it shares with the search for posted messages.
	pace = 1500 * time.Millisecond
)
