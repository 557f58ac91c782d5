// Package discord is the Discord adapter: it receives what people write and
// click, over the gateway or as HTTP interactions, hands it to the sessions, and
// writes the sessions' messages into their threads.
//
// A thread's identity is the guild and the thread's ID, which is that of the
// message it was opened from. So nothing is stored here: any number of bots may
// serve one application. What is kept in memory (places, roles, members, which
// events were taken lately) only saves calls.
//
// discordgo holds the gateway's connection and paces the calls of the REST API.
// Around it stands what it lacks: events are decoded by our own types from their
// raw form, because one unknown component empties a message of discordgo's; a
// watchdog ends connections that are silent or stuck; waits for a rate limit end
// with their context; requests are our own structs, without nulls, with a nonce,
// and with allowed_mentions in every one.
//
// Interactions are deferred first, and their outcome always follows: through the
// interaction's token while it lives, as a message after that. Messages are
// deduplicated on their own identity, and Temporal does so again, because every
// bot of an application gets every event.
//
// Not here: pacing, which is the task queue's (see docs/discord.md); who may
// approve, which is the session's: the adapter only gives evidence of who clicked
// and which roles they have, as Discord says it with the click.
package discord
