// Package slackfake is a strict stand-in for Slack: the Web API methods that the
// adapter uses, over HTTP, and Socket Mode, over WebSocket. Only tests import it.
//
// It refuses what Slack refuses: tokens of the wrong kind, missing scopes,
// channels the bot is no member of, blocks with unknown fields or over the
// documented limits, texts that are too long, edits of others' messages, triggers
// older than 3 seconds or used twice, more calls than a method's tier, more than
// five answers at a response_url. What Slack takes though its documentation asks
// for something else, it takes and keeps in [Server.Complaints].
//
// Events are delivered to one of the open connections and again, with
// retry_attempt, where no acknowledgement comes; commands and clicks once.
// Faults are made with [Server.Fail], [Server.Freeze], [Server.Refresh],
// [Server.DropAcks], [Server.Duplicate] and [Server.Hold].
package slackfake
