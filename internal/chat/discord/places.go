package discord

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/bwmarrin/discordgo"
)

// place returns a channel or thread: remembered from events, or asked for. The
// zero channel is one that is gone.
func (a *App) place(ctx context.Context, id string) (channel, error) {
	if c, ok := a.places.get(id, placesFor); ok {
		return c, nil
	}
	return a.lookUpPlace(ctx, id)
}

func (a *App) lookUpPlace(ctx context.Context, id string) (channel, error) {
	var c channel
	err := a.api.call(ctx, http.MethodGet, "/channels/"+id, nil, &c)
	if is(err, discordgo.ErrCodeUnknownChannel) {
		return channel{}, nil
	}
	if err == nil {
		a.places.put(id, c)
	}
	return c, err
}

// guildCreated takes a guild's channels, threads and roles, which come at each
// start.
func (a *App) guildCreated(_ context.Context, data json.RawMessage) {
	var g struct {
		ID       string    `json:"id"`
		Channels []channel `json:"channels"`
		Threads  []channel `json:"threads"`
		Roles    []role    `json:"roles"`
	}
	if json.Unmarshal(data, &g) != nil {
		return
	}
	for _, c := range append(g.Channels, g.Threads...) {
		c.Guild = g.ID
		a.places.put(c.ID, c)
	}
	if len(g.Roles) > 0 {
		a.people.roles.put(g.ID, g.Roles)
	}
}

// guildLeft says that the bot was removed from a server, or that the server is gone:
// its sessions' messages wait for an invitation.
func (a *App) guildLeft(_ context.Context, data json.RawMessage) {
	var g struct {
		ID          string `json:"id"`
		Unavailable bool   `json:"unavailable"` // for now: Discord has an outage
	}
	if json.Unmarshal(data, &g) == nil && !g.Unavailable {
		a.log.Warn("The bot is no longer in a server; what its sessions say there waits until it is invited again", "guild", g.ID)
	}
}

func (a *App) placeChanged(_ context.Context, data json.RawMessage) {
	var c channel
	if json.Unmarshal(data, &c) == nil && c.ID != "" {
		a.places.put(c.ID, c)
	}
}

func (a *App) rolesChanged(_ context.Context, data json.RawMessage) {
	var e struct {
		Guild string `json:"guild_id"`
	}
	if json.Unmarshal(data, &e) == nil {
		a.people.roles.drop(e.Guild)
	}
}
