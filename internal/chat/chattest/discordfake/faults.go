package discordfake

// openFault is what happens to the next connection.
type openFault int

const (
	noFault openFault = iota
	dropAtOnce
	reconnectSecond
	invalidFirst
	// closeBase and a close code is a close in the place of READY or RESUMED.
	closeBase openFault = 10000
)

// Connections is how many are open now; Opened how many ever were.
func (g *Gateway) Connections() int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return len(g.conns)
}

// Opened is how many connections were ever opened.
func (g *Gateway) Opened() int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.opened
}

// Identifies is how many sessions were begun; Resumes how many were gone on with.
func (g *Gateway) Identifies() int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return len(g.identifies)
}

// Spend makes n sessions be begun by others today, so that only so many fewer may
// still be.
func (g *Gateway) Spend(n int) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	for range n {
		g.identifies = append(g.identifies, g.s.now())
	}
}

// Resumes is how many sessions were gone on with.
func (g *Gateway) Resumes() int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.resumed
}

// Ready reports whether a session is connected.
func (g *Gateway) Ready() bool {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	for _, s := range g.sessions {
		if s.at != nil {
			return true
		}
	}
	return false
}

// Closes are the codes that clients closed with, in order; 0 is none: the TCP
// connection ended.
func (g *Gateway) Closes() []int {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return append([]int(nil), g.closes...)
}

func (g *Gateway) each(do func(*conn)) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	for _, c := range g.conns {
		do(c)
	}
}

// Reconnect asks the open connections to reconnect (opcode 7).
func (g *Gateway) Reconnect() {
	g.each(func(c *conn) { c.send(object{"op": opReconnect, "d": nil, "s": nil, "t": nil}) })
}

// Invalidate tells the open connections that their session is invalid (opcode 9);
// one that is not resumable is forgotten.
func (g *Gateway) Invalidate(resumable bool) {
	g.each(func(c *conn) {
		if c.session != nil && !resumable {
			delete(g.sessions, c.session.id)
			c.session = nil
		}
		c.send(object{"op": opInvalidSession, "d": resumable, "s": nil, "t": nil})
	})
}

// Forget drops all sessions, so that resuming fails.
func (g *Gateway) Forget() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	clear(g.sessions)
}

// Ask sends the open connections a heartbeat request (opcode 1).
func (g *Gateway) Ask() {
	g.each(func(c *conn) { c.send(object{"op": opHeartbeat, "d": nil, "s": nil, "t": nil}) })
}

// CloseWith ends the open connections with a close code; their sessions can be
// resumed.
func (g *Gateway) CloseWith(code int) {
	g.each(func(c *conn) {
		if c.session != nil {
			c.session.at = nil
		}
		c.close(code)
	})
}

// Cut ends the open TCP connections without a word.
func (g *Gateway) Cut() {
	g.each(func(c *conn) {
		if c.session != nil {
			c.session.at = nil
		}
		c.abort()
	})
}

// Freeze makes the open connections half-open: nothing comes from them, nothing
// that is sent to them arrives, and their TCP connections stay.
func (g *Gateway) Freeze() {
	g.each(func(c *conn) {
		c.mu.Lock()
		c.frozen = true
		c.mu.Unlock()
	})
}

// Mute answers no heartbeat until it is off.
func (g *Gateway) Mute(on bool) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.muted = on
}

// Duplicate dispatches every event twice from now on, each time with a sequence
// number of its own.
func (g *Gateway) Duplicate(on bool) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.twice = on
}

// Hold keeps events back until [Gateway.Release].
func (g *Gateway) Hold() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.holding = true
}

// Release sends the events that were held, the last one first.
func (g *Gateway) Release() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	held := g.held
	g.held, g.holding = nil, false
	for i := len(held) - 1; i >= 0; i-- {
		held[i]()
	}
}

// Lose forgets the events that were held: they are never sent, as with a session
// that could not be resumed.
func (g *Gateway) Lose() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.held, g.holding = nil, false
}

func (g *Gateway) next(f openFault, times int) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	for range times {
		g.faults = append(g.faults, f)
	}
}

// NextReconnects makes the next n connections get opcode 7 as their second frame,
// in the place of READY or RESUMED.
func (g *Gateway) NextReconnects(n int) { g.next(reconnectSecond, n) }

// NextInvalid makes the next n connections get opcode 9 (false) in the place of
// READY or RESUMED.
func (g *Gateway) NextInvalid(n int) { g.next(invalidFirst, n) }

// NextCloses makes the next n connections end with a close code in the place of
// READY or RESUMED.
func (g *Gateway) NextCloses(n, code int) { g.next(closeBase+openFault(code), n) }

// NextDrops ends the next n connections before Hello.
func (g *Gateway) NextDrops(n int) { g.next(dropAtOnce, n) }

// RefuseResume answers the next attempt to resume with opcode 9: with again, the
// session stays, and trying once more works.
func (g *Gateway) RefuseResume(again bool) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.noResume = append(g.noResume, again)
}

// Dispatch sends an event as it is to every session, whatever its intents.
func (g *Gateway) Dispatch(name string, data map[string]any) {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.s.dispatch(dispatch{name: name, data: object(data)})
}
