package discord

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"
	"golang.org/x/sync/singleflight"

	"github.com/countersign/countersign/internal/workflows"
)

// people knows who is a member of a guild, with which roles, from Discord: from
// the event itself, or asked and at most a minute old. What cannot be looked up
// is an error: nobody gets a role because Discord did not answer.
type people struct {
	api     *api
	members *memory[member]
	roles   *memory[[]role]
	ask     singleflight.Group
}

func newPeople(a *api) *people {
	return &people{api: a, members: newMemory[member](), roles: newMemory[[]role]()}
}

// note remembers a member that came with an event.
func (p *people) note(guild string, u user, m *member) {
	if guild == "" || u.ID == "" || m == nil {
		return
	}
	known := *m
	known.User = &u
	p.members.put(guild+"/"+u.ID, known)
}

// member returns somebody as a member of a guild; false for who is none.
func (p *people) member(ctx context.Context, guild, id string) (member, bool, error) {
	if m, ok := p.members.get(guild+"/"+id, cacheFor); ok {
		return m, true, nil
	}
	return p.lookUp(ctx, guild, id)
}

// lookUp asks Discord for a member.
func (p *people) lookUp(ctx context.Context, guild, id string) (member, bool, error) {
	m, err := shared(ctx, &p.ask, guild+"/"+id, func(ctx context.Context) (member, error) {
		var m member
		err := p.api.call(ctx, http.MethodGet, "/guilds/"+guild+"/members/"+id, nil, &m)
		if err == nil && m.User != nil {
			p.members.put(guild+"/"+id, m)
		}
		return m, err
	})
	if is(err, discordgo.ErrCodeUnknownMember, discordgo.ErrCodeUnknownUser) {
		return member{}, false, nil
	}
	if err != nil {
		return member{}, false, fmt.Errorf("looking up member %s: %w", id, err)
	}
	return m, m.User != nil, nil
}

// shared runs f once for all who ask at the same time; it goes on, within its own
// time, when the one who asked gives up, so that the next one finds its result.
func shared[T any](ctx context.Context, g *singleflight.Group, key string, f func(context.Context) (T, error)) (T, error) {
	ch := g.DoChan(key, func() (any, error) {
		ctx, cancel := limit(ctx, callTimeout)
		defer cancel()
		return f(ctx)
	})
	select {
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	case r := <-ch:
		v, _ := r.Val.(T)
		return v, r.Err
	}
}

// actor says of a member what counts for authority, without groups. Members whom
// a server's screening has not let in yet are guests.
func actorOf(u user, m *member) workflows.Actor {
	a := workflows.Actor{ID: u.ID, Name: nameOf(u, m), Bot: u.Bot || u.System, External: m == nil}
	if m != nil {
		a.Guest = m.Pending || m.Flags&messageGuest != 0
	}
	return a
}

func nameOf(u user, m *member) string {
	if m != nil && m.Nick != "" {
		return m.Nick
	}
	if u.Global != "" {
		return u.Global
	}
	return u.Name
}

// guildRoles returns a guild's roles.
func (p *people) guildRoles(ctx context.Context, guild string) ([]role, error) {
	if r, ok := p.roles.get(guild, cacheFor); ok {
		return r, nil
	}
	return p.lookUpRoles(ctx, guild)
}

// lookUpRoles asks Discord for a guild's roles.
func (p *people) lookUpRoles(ctx context.Context, guild string) ([]role, error) {
	return shared(ctx, &p.ask, "roles/"+guild, func(ctx context.Context) ([]role, error) {
		var all []role
		if err := p.api.call(ctx, http.MethodGet, "/guilds/"+guild+"/roles", nil, &all); err != nil {
			return nil, fmt.Errorf("looking up roles: %w", err)
		}
		p.roles.put(guild, all)
		return all, nil
	})
}

// groups are a member's roles as the configuration may name them: by ID, by name,
// and by name with @. Where the names cannot be looked up the IDs are returned
// with the error.
func (p *people) groups(ctx context.Context, guild string, m member) ([]string, error) {
	if len(m.Roles) == 0 {
		return nil, nil
	}
	in := slices.Clone(m.Roles)
	all, err := p.guildRoles(ctx, guild)
	return append(in, namesOf(all, m.Roles)...), err
}

// namesOf are the names of roles, with and without @. A name that several roles
// have says nothing, and one that looks like an ID might be taken for somebody
// else's: their IDs count.
func namesOf(all []role, ids []string) []string {
	var names []string
	for _, r := range all {
		id, one := roleID(all, r.Name)
		if one && id == r.ID && slices.Contains(ids, id) && r.Name != "" && r.Name != "*" && !isID(r.Name) {
			names = append(names, r.Name, "@"+r.Name)
		}
	}
	return names
}

// roleID finds a role by its ID or name, as the configuration names it. A name
// that several roles have is nobody's: it would not say who is meant.
func roleID(all []role, name string) (string, bool) {
	bare := strings.TrimPrefix(name, "@")
	found := ""
	for _, r := range all {
		if r.ID == name {
			return r.ID, true
		}
		if r.Name == bare {
			if found != "" {
				return "", false
			}
			found = r.ID
		}
	}
	return found, found != ""
}
