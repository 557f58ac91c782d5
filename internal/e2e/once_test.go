package e2e_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One client_id posted five times at once is one message and one turn.
func TestOneClientIDIsOneTurn(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	first := fiveTimes(t, ada, "/channels/general/messages", map[string]string{"text": "/agent `echo once >> n`", "client_id": "five-" + t.Name()})
	id := first.ThreadID
	ada.sees(t, id, "the answer", answered(1))
	fiveTimes(t, ada, "/threads/"+id+"/messages", map[string]string{"text": "`echo twice >> n`", "client_id": "five-more-" + t.Name()})
	ada.sees(t, id, "the answer", answered(2))
	// A later turn would be there by the time a third one has ended.
	ada.does(t, id, 3, "cat n")
	th := ada.thread(t, id)
	require.Equal(t, "once\ntwice\n", th.inWorkspace(t, "n"))
	require.Len(t, th.all("turn"), 3)
	require.Len(t, th.all("user"), 3)
	var threads []thread
	ada.get(t, "/channels/general/threads", &threads)
	same := 0
	for _, th := range threads {
		if th.Title == "`echo once >> n`" {
			same++
		}
	}
	require.Equal(t, 1, same)
}

// fiveTimes makes the same post five times at once; all get the same reply.
func fiveTimes(t testing.TB, c *client, path string, body map[string]string) posted {
	t.Helper()
	replies := make([]posted, 5)
	var all sync.WaitGroup
	for i := range replies {
		all.Go(func() {
			status, data, err := c.request(http.MethodPost, path, body)
			for began := time.Now(); err == nil && status == http.StatusServiceUnavailable && time.Since(began) < within; {
				status, data, err = c.request(http.MethodPost, path, body) // as the page does
			}
			if err == nil && status == http.StatusAccepted {
				_ = json.Unmarshal(data, &replies[i]) // compared below
			} else {
				t.Errorf("%d %s %v", status, data, err)
			}
		})
	}
	all.Wait()
	for _, r := range replies {
		require.Equal(t, replies[0], r)
	}
	require.NotEmpty(t, replies[0].MessageID)
	return replies[0]
}

// Messages sent while a turn runs are taken in it, in order.
func TestMessagesDuringATurn(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`"+untilGo+"; echo 0 >> order`")
	th := ada.sees(t, id, "the command runs", running(1))
	for _, text := range []string{"`echo 1 >> order`", "`echo 2 >> order` and `echo 3 >> order`", "no command here", "`echo 4 >> order`"} {
		ada.says(t, id, text)
	}
	th.letGo(t)
	th = ada.sees(t, id, "one answer to all", answered(1))
	require.Equal(t, "0\n1\n2\n3\n4\n", th.inWorkspace(t, "order"))
	for _, c := range []string{"echo 0", "echo 1", "echo 2", "echo 3", "echo 4"} {
		require.Contains(t, th.answer(1).Text, c)
	}
	th = ada.sees(t, id, "the card is over", over(1))
	require.Len(t, th.all("turn"), 1)
	require.Len(t, th.calls(1), 5)
}
