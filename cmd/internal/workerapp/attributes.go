package workerapp

import (
	"context"
	"fmt"
	"sort"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/internal/workflows"
)

// SearchAttributes are what sessions are found by, in the Web UI and by list.
func SearchAttributes() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		workflows.SearchAttributeLiveness: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		workflows.SearchAttributeWaiting:  enumspb.INDEXED_VALUE_TYPE_INT,
		workflows.SearchAttributePlatform: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}
}

// ensureSearchAttributes creates the attributes that namespace lacks. Without
// them a session could not be started, so where that is not allowed the worker
// must not run: the error holds the command for somebody who may.
func ensureSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("looking for the search attributes of namespace %s (%w); make sure they exist with:\n%s",
			namespace, err, createCommand(namespace, SearchAttributes()))
	}
	missing := map[string]enumspb.IndexedValueType{}
	for name, kind := range SearchAttributes() {
		got, ok := have.CustomAttributes[name]
		switch {
		case !ok:
			missing[name] = kind
		case got != kind:
			return fmt.Errorf("namespace %s has the search attribute %s as %s and not %s: remove it, or use another namespace",
				namespace, name, got, kind)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	if err != nil {
		return fmt.Errorf("this worker may not create search attributes in namespace %s (%w); let somebody who may run:\n%s",
			namespace, err, createCommand(namespace, missing))
	}
	return nil
}

// createCommand is the Temporal CLI's command that creates the attributes.
func createCommand(namespace string, attributes map[string]enumspb.IndexedValueType) string {
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	sort.Strings(names)
	var b strings.Builder
	b.WriteString("  temporal operator search-attribute create --namespace " + namespace)
	for _, name := range names {
		b.WriteString(" --name " + name + " --type " + attributes[name].String())
	}
	return b.String()
}
