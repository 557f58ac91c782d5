// Package slack is the Slack adapter: it receives, over Socket Mode or HTTP, what people
// write and click, hands it to the sessions, and writes the sessions' messages
// into their threads.
//
// A thread's identity is the installation's team, the channel and the thread's
// timestamp, so nothing is stored here: any number of bots may serve one team.
// What is kept in memory (names, groups, who started a thread, which events were
// taken lately) only saves calls.
//
// Events are acknowledged after Temporal has them; one that it did not take is
// repeated by Slack, and by us while we live. They are deduplicated on the
// message's own identity, and Temporal does so again, because two bots may get
// the two events that one mention makes. Slash commands and clicks, which Slack
// never repeats, are acknowledged first, and their outcome always follows.
//
// Not here: pacing, which is the task queues' (see docs/slack.md); who may
// approve, which is the session's: the adapter only gives evidence of who
// clicked and which groups they are in, and gives none that it could not check.
package slack
