package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/countersign/countersign/internal/agent/offline"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

// SpendPrefix begins the blob keys of what people's turns have cost: a folder for
// each day, in it one for each person, in it a blob for each session.
const SpendPrefix = "spend/"

// Budgets are the limits in millionths of the currency's unit; 0 is none.
type Budgets struct{ Turn, Session, PersonDay int64 }

// Spend is what one session's turns have cost the person who began them on a day.
type Spend struct {
	Date       string          `json:"date"`
	Person     string          `json:"person"`
	WorkflowID string          `json:"workflow_id"`
	Usage      workflows.Usage `json:"usage"`
}

// over tells which budget is used up; nil where the call may be made. A model
// without a price cannot be held to a budget, so it is refused.
func (a *Activities) over(ctx context.Context, in workflows.ModelInput, model string) (*workflows.OverBudget, error) {
	if a.budgets == (Budgets{}) || model == offline.Name {
		return nil, nil
	}
	if _, ok := forModel(a.prices, model); !ok {
		return nil, &failure{
			kind: workflows.ErrTypeBadRequest, what: fmt.Sprintf("The model %q has no price, and a budget is set.", model),
			hint: "Set openai.prices." + model + " on the worker, or choose another model: `model <name>`.",
		}
	}
	day := int64(0)
	if a.budgets.PersonDay > 0 && in.Spent.Payer != "" {
		var err error
		if day, err = a.elsewhere(ctx, in); err != nil {
			return nil, err
		}
	}
	for _, b := range []struct {
		name         string
		spent, limit int64
	}{
		{workflows.BudgetTurn, in.Spent.Turn, a.budgets.Turn},
		{workflows.BudgetSession, in.Spent.Session, a.budgets.Session},
		{workflows.BudgetPersonDay, in.Spent.Day.Micros + day, a.budgets.PersonDay},
	} {
		limit := max(b.limit, in.Spent.Raised[b.name])
		if b.limit == 0 || b.spent < limit {
			continue
		}
		next := limit
		for next <= b.spent {
			next += b.limit
		}
		o := &workflows.OverBudget{Budget: b.name, Spent: b.spent, Limit: limit, Next: next}
		if a.rules != nil {
			o.Rule = a.rules("risky", in.Channel)
		}
		return o, nil
	}
	return nil, nil
}

// elsewhere is what the payer's turns have cost today in other sessions of the
// same team, guild or site.
func (a *Activities) elsewhere(ctx context.Context, in workflows.ModelInput) (int64, error) {
	own, sum := spendKey(in), int64(0)
	others, err := spent(ctx, a.texts.blobs, own[:strings.LastIndexByte(own, '/')+1], own)
	for _, s := range others {
		sum += s.Usage.Micros
	}
	return sum, err
}

// SpentOn is what sessions have cost on a day (UTC), such as "2026-11-30".
func SpentOn(ctx context.Context, blobs Blobs, day string) ([]Spend, error) {
	return spent(ctx, blobs, SpendPrefix+day+"/", "")
}

// spent reads the records below a prefix, without one of them.
func spent(ctx context.Context, blobs Blobs, prefix, but string) ([]Spend, error) {
	var all []Spend
	for o, err := range blobs.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("listing the day's spending: %w", err)
		}
		if o.Key == but {
			continue
		}
		data, err := blobs.Get(ctx, o.Key)
		s := Spend{}
		switch {
		case errors.Is(err, blob.ErrNotFound): // removed meanwhile
		case err != nil:
			return nil, fmt.Errorf("reading the day's spending: %w", err)
		case json.Unmarshal(data, &s) == nil:
			all = append(all, s)
		}
	}
	return all, nil
}

// book writes down what the session has cost its payer today. It holds the sum,
// so that writing it twice changes nothing.
func (a *Activities) book(ctx context.Context, in workflows.ModelInput, u workflows.Usage) error {
	if in.Spent.Payer == "" || u.Input+u.Output == 0 {
		return nil
	}
	data := item(Spend{Date: in.Spent.Date, Person: in.Spent.Payer, WorkflowID: in.WorkflowID, Usage: in.Spent.Day.Add(u)})
	if err := a.texts.blobs.Write(ctx, spendKey(in), data); err != nil {
		return fmt.Errorf("writing the day's spending: %w", err)
	}
	return nil
}

func spendKey(in workflows.ModelInput) string {
	where := in.WorkflowID
	if t, err := workflows.ParseWorkflowID(in.WorkflowID); err == nil {
		where = t.ManagerID()
	}
	return SpendPrefix + in.Spent.Date + "/" + short(where+"\x00"+in.Spent.Payer) + "/" + short(in.WorkflowID) + ".json"
}

func short(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:12])
}
