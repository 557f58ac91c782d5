package config

import (
	"fmt"
	"strconv"
)

// Price is what a model costs, in millionths of a dollar for a million tokens.
type Price struct{ Input, Cached, Output int64 }

// ModelPrices are the prices by model.
func (o OpenAI) ModelPrices() map[string]Price {
	out := map[string]Price{}
	for model, parts := range o.Prices.groups() {
		if p, err := price(parts); err == nil {
			out[model] = p
		}
	}
	return out
}

// ModelWindows are the windows by model, in tokens.
func (o OpenAI) ModelWindows() map[string]int64 {
	out := map[string]int64{}
	for model, text := range o.Windows {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			out[model] = n
		}
	}
	return out
}

func price(parts map[string]string) (Price, error) {
	var p Price
	places := map[string]*int64{"input": &p.Input, "cached": &p.Cached, "output": &p.Output}
	for part, text := range parts {
		place, ok := places[part]
		if !ok {
			return p, fmt.Errorf("%q is none of input, cached, output", part)
		}
		var err error
		if *place, err = money(text); err != nil {
			return p, err
		}
	}
	if _, ok := parts["input"]; !ok {
		return p, fmt.Errorf("has no input")
	}
	if _, ok := parts["output"]; !ok {
		return p, fmt.Errorf("has no output")
	}
	if _, ok := parts["cached"]; !ok {
		p.Cached = p.Input
	}
	return p, nil
}

// Limits are the budgets in millionths of a dollar; 0 is none.
type Limits struct{ Turn, Session, PersonDay int64 }

// Limits are the budgets as numbers.
func (b Budget) Limits() Limits {
	read := func(text string) int64 {
		n, err := money(text)
		if err != nil {
			return 0
		}
		return n
	}
	return Limits{Turn: read(b.Turn), Session: read(b.Session), PersonDay: read(b.PersonDay)}
}

// Set tells whether there is any.
func (l Limits) Set() bool { return l.Turn > 0 || l.Session > 0 || l.PersonDay > 0 }

func (c *Config) checkModel(k *checker) {
	k.oneOf("openai.state", c.OpenAI.State, "stateless", "server")
	if c.OpenAI.Model == "" {
		k.fault("openai.model", "must not be empty")
	}
	if c.OpenAI.BaseURL != "" {
		k.httpURL("openai.base_url", c.OpenAI.BaseURL)
	}
	if c.OpenAI.Background && c.OpenAI.State != "server" {
		k.warn("openai.background does nothing without openai.state server, where responses are kept")
	}
	if n := c.OpenAI.CompactAt; n < 10 || n > 95 {
		k.fault("openai.compact_at", "must be from 10 to 95, not %d", n)
	}
	for model, text := range c.OpenAI.Windows {
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < 1000 {
			k.fault("openai.windows."+model, "%q is not a number of tokens, at least 1000", text)
		}
	}
	for model, parts := range c.OpenAI.Prices.groups() {
		if _, err := price(parts); err != nil {
			k.fault("openai.prices."+model, "%v", err)
		}
	}
	c.checkBudget(k)
}

func (c *Config) checkBudget(k *checker) {
	for key, text := range map[string]string{"turn": c.Budget.Turn, "session": c.Budget.Session, "person_day": c.Budget.PersonDay} {
		if n, err := money(text); text != "" && (err != nil || n == 0) {
			k.fault("budget."+key, "%q is not an amount of dollars such as 1.25", text)
		}
	}
	k.atLeastOne("budget.turn_steps", c.Budget.TurnSteps)
	if c.Budget.Limits().Set() && !c.OpenAI.Offline() && len(c.OpenAI.Prices) == 0 {
		k.fault("budget", "is set, and openai.prices has no price to count by")
	}
}
