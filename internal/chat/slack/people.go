package slack

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/slack-go/slack"
	"golang.org/x/sync/singleflight"

	"github.com/countersign/countersign/internal/workflows"
)

// people knows who somebody is and which user groups they are in, from Slack, at
// most a minute old. What cannot be looked up is an error: nobody becomes a
// member of anything because Slack did not answer.
type people struct {
	api    *api
	self   identity
	users  *memory[string, workflows.Actor]
	groups *memory[string, []group]
	ask    singleflight.Group
}

type group struct {
	ID, Handle string
	Users      []string
}

func newPeople(a *api, self identity) *people {
	return &people{api: a, self: self, users: newMemory[string, workflows.Actor](), groups: newMemory[string, []group]()}
}

// actor returns who a user is, without groups.
func (p *people) actor(ctx context.Context, user string) (workflows.Actor, error) {
	if user == "" {
		return workflows.Actor{}, fmt.Errorf("the event names nobody")
	}
	if a, ok := p.users.get(user, cacheFor); ok {
		return a, nil
	}
	return p.lookUp(ctx, user)
}

// lookUp asks Slack who a user is.
func (p *people) lookUp(ctx context.Context, user string) (workflows.Actor, error) {
	return shared(ctx, &p.ask, "user/"+user, func(ctx context.Context) (workflows.Actor, error) {
		u, err := p.api.GetUserInfoContext(ctx, user, slack.GetUserInfoOptionIncludeLocale(false))
		if c := code(err); c == "user_not_found" || c == "user_not_visible" {
			return workflows.Actor{ID: user, External: true}, nil
		}
		if err != nil {
			return workflows.Actor{}, fmt.Errorf("looking up user %s: %w", user, detail(err))
		}
		a := p.describe(u)
		p.users.put(user, a)
		return a, nil
	})
}

// shared runs f once for all who ask at the same time; it goes on, within its own
// time, when the one who asked gives up, so that the next one finds its result.
func shared[T any](ctx context.Context, g *singleflight.Group, key string, f func(context.Context) (T, error)) (T, error) {
	ch := g.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
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

// describe says of a user what counts for authority. Whoever is not certainly of
// the installation's own team, or its organisation, is external.
func (p *people) describe(u *slack.User) workflows.Actor {
	ours := u.TeamID == p.self.Team ||
		(p.self.Enterprise != "" && (u.Enterprise.EnterpriseID == p.self.Enterprise || u.TeamID == p.self.Enterprise))
	return workflows.Actor{
		ID:       u.ID,
		Name:     nameOf(u),
		Bot:      u.IsBot || u.IsWorkflowBot || u.IsConnectorBot || u.ID == "USLACKBOT",
		Guest:    u.IsRestricted || u.IsUltraRestricted || u.IsInvitedUser,
		External: !ours || u.IsStranger || u.Deleted,
	}
}

func nameOf(u *slack.User) string {
	for _, n := range []string{u.Profile.DisplayName, u.RealName, u.Profile.RealName, u.Name} {
		if n = strings.TrimSpace(n); n != "" {
			return n
		}
	}
	return ""
}

// all returns the team's enabled user groups with their members.
func (p *people) all(ctx context.Context) ([]group, error) {
	if g, ok := p.groups.get("", cacheFor); ok {
		return g, nil
	}
	return p.lookUpGroups(ctx)
}

// lookUpGroups asks Slack for the groups.
func (p *people) lookUpGroups(ctx context.Context) ([]group, error) {
	return shared(ctx, &p.ask, "groups", func(ctx context.Context) ([]group, error) {
		var out struct {
			Groups []struct {
				ID         string   `json:"id"`
				Handle     string   `json:"handle"`
				Users      []string `json:"users"`
				DateDelete int64    `json:"date_delete"`
			} `json:"usergroups"`
		}
		_, err := p.api.call(ctx, "usergroups.list", url.Values{"include_users": {"true"}, "include_disabled": {"false"}}, &out)
		if err != nil {
			return nil, fmt.Errorf("looking up user groups: %w", detail(err))
		}
		var groups []group
		for _, g := range out.Groups {
			if g.DateDelete == 0 {
				groups = append(groups, group{ID: g.ID, Handle: g.Handle, Users: g.Users})
			}
		}
		p.groups.put("", groups)
		return groups, nil
	})
}

// memberships are the IDs and handles, with and without @, of the groups that a
// user is in: however the configuration names them.
func (p *people) memberships(ctx context.Context, user string) ([]string, error) {
	groups, err := p.all(ctx)
	if err != nil {
		return nil, err
	}
	return groupsOf(groups, user), nil
}

func groupsOf(groups []group, user string) []string {
	var in []string
	for _, g := range groups {
		if slices.Contains(g.Users, user) {
			in = append(in, g.ID)
			if g.Handle != "" {
				in = append(in, g.Handle, "@"+g.Handle)
			}
		}
	}
	return in
}

// groupID finds a group by its ID or handle.
func groupID(groups []group, name string) (string, bool) {
	name = strings.TrimPrefix(name, "@")
	for _, g := range groups {
		if g.ID == name || (g.Handle != "" && g.Handle == name) {
			return g.ID, true
		}
	}
	return "", false
}

// isUserID reports the form of a user's ID.
func isUserID(s string) bool { return isID(s, "UW") }

// isGroupID reports the form of a user group's ID.
func isGroupID(s string) bool { return isID(s, "S") }

// isID: Slack's IDs are capitals and digits, and at least 8 of them.
func isID(s, kinds string) bool {
	if len(s) < 8 || !strings.ContainsRune(kinds, rune(s[0])) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !(r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') }) < 0
}
