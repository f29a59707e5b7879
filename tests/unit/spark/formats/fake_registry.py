"""A schema registry in memory, for what asks one by the client of ours."""

from ottla.client.schema_registry.registry import SchemaNotFound, SchemaRegistry


class Registry(SchemaRegistry):
    """It has these schemas by their ids; `subjects` has the id of the newest, `asked` which ids were asked for."""

    def __init__(self, schemas, subjects):
        super().__init__("http://nowhere:1")
        self.all = schemas
        self.subjects = subjects
        self.asked = []

    def schema(self, schema_id, form=""):
        self.asked.append(schema_id)
        if schema_id not in self.all:
            raise SchemaNotFound(f"schema {schema_id}")
        return self.all[schema_id]

    def latest(self, subject):
        if subject not in self.subjects:
            raise SchemaNotFound(f"subject {subject}")
        return self.subjects[subject], self.all[self.subjects[subject]]

    def version(self, subject, version, form=""):
        return self.latest(subject)[1]
