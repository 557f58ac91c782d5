package keeper

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
)

// Order is one namespace that a keeper is to make, and to keep the record of.
type Order struct {
	// Record is the record's directory, whose name begins with a dot: it is no exec's
	// until it has another, which [Claim] tells.
	Record string
	Script string // the path of the harness's
	// Limit is how many bytes a stream may have; a longer one ends the command.
	Limit int64
	// Bounds are variables as [EnvGroups] and [EnvOOMs].
	Bounds []string
	// Argv makes a process namespace, reports on it to file descriptor 9, and runs
	// harness.Await in it.
	Argv []string
}

const (
	wordOrder = "order"
	wordClaim = "claim"
	// maxMessage bounds what is believed to be a message, in bytes.
	maxMessage = 1 << 20
)

// Encode is the order as a keeper reads it. It may be written once the one before is
// done.
func (o Order) Encode() []byte {
	words := []string{wordOrder, o.Record, o.Script, strconv.FormatInt(o.Limit, 10), strconv.Itoa(len(o.Bounds))}
	return message(append(append(words, o.Bounds...), o.Argv...))
}

// Claim tells the keeper, when it has been written, that the record which had this
// name when it was ordered has got its exec's, for good, or never will.
func Claim(record string) []byte { return message([]string{wordClaim, record}) }

// message is a line with its length and then words that hold no NUL, which paths,
// arguments and variables cannot.
func message(words []string) []byte {
	text := strings.Join(words, "\x00")
	return []byte(strconv.Itoa(len(text)) + "\n" + text)
}

var errMessage = errors.New("no message of a worker")

// readMessage is the other side of message.
func readMessage(r *bufio.Reader) ([]string, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(string(line[:len(line)-1]))
	if err != nil || n < 0 || n > maxMessage {
		return nil, errMessage
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	return strings.Split(string(text), "\x00"), nil
}

func parseOrder(words []string) (o Order, err error) {
	if len(words) < 5 || words[0] != wordOrder {
		return o, errMessage
	}
	o.Record, o.Script = words[1], words[2]
	if o.Limit, err = strconv.ParseInt(words[3], 10, 64); err != nil {
		return o, err
	}
	n, err := strconv.Atoi(words[4])
	if err != nil || n < 0 || n >= len(words)-5 {
		return o, errMessage
	}
	o.Bounds, o.Argv = words[5:5+n], words[5+n:]
	return o, nil
}

// bound is a variable of the order's bounds; empty where that is not set.
func (o Order) bound(name string) string {
	for _, kv := range o.Bounds {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// hear reads what is to be done until nobody is there any more to say it. Nobody else
// reads, so that no claim is another order's.
func (k *keep) hear(from *os.File) {
	var latest *round
	defer func() {
		if latest != nil {
			latest.claim()
		}
		close(k.rounds)
	}()
	for in := bufio.NewReader(from); ; {
		words, err := readMessage(in)
		if err != nil {
			return
		}
		if words[0] == wordClaim {
			if latest != nil && len(words) == 2 && latest.Record == words[1] {
				latest.claim()
			}
			continue
		}
		o, err := parseOrder(words)
		if err != nil {
			return
		}
		latest = newRound(k, o)
		k.rounds <- latest
	}
}
