// Package chat is what all chat platforms share: the command grammar, the way
// from an event to the session's workflow, the texts that people read, and the
// delivery of messages into threads.
//
// A platform's adapter decodes events into [Event] and [Click], hands them to a
// [Router], shows the [Reply], and implements [Poster]. A [Delivery] over that
// poster is registered as Temporal activities on the platform's chat queues.
//
// Nothing here keeps state: the workflow ID follows from the event alone, and
// what a thread shows is read from the workflow when it is shown. So any number
// of bots may serve one platform, and each of them may be killed at any moment.
package chat
